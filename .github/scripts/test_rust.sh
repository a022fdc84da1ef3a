#!/usr/bin/env bash
# Every Rust test, doctests included. Arguments go to cargo: test_rust.sh -p tidegate-operators.
set -euo pipefail
cargo test --quiet --locked "${@:---workspace}"
