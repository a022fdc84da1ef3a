#!/usr/bin/env bash
# Runs Clippy on every target; warnings are errors. Without arguments, it excludes the benches,
# which need additional crates. lint_rust.sh --workspace includes them.
set -euo pipefail
[[ $# -gt 0 ]] || set -- --workspace --exclude tidegate-benches
cargo clippy --quiet --locked "$@" --all-targets --features tidegate-python/abi3 -- -D warnings
