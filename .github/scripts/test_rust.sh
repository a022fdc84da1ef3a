#!/usr/bin/env bash
# Every Rust test, doctests included. The benches have none, so they are not compiled. Arguments go to cargo: test_rust.sh -p tidegate-operators.
# A test that takes longer than a minute is named. All of them have 40 minutes, where the system has `timeout`.
set -euo pipefail
limit=$(command -v timeout || true)
${limit:+"$limit" --foreground 2400} cargo test --quiet --locked "$@"
