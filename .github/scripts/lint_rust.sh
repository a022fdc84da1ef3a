#!/usr/bin/env bash
# Clippy over every target; warnings are errors. Without arguments it leaves out the benches, which depend on further crates;
# lint_rust.sh --workspace includes them.
set -euo pipefail
[[ $# -gt 0 ]] || set -- --workspace --exclude tidegate-benches
cargo clippy --quiet --locked "$@" --all-targets --features tidegate-python/abi3 -- -D warnings
