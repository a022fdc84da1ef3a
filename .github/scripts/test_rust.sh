#!/usr/bin/env bash
# Every Rust test, doctests included; the benches, which have none, are left out. Arguments go to cargo: test_rust.sh -p tidegate-operators.
set -euo pipefail
cargo test --quiet --locked "$@"
