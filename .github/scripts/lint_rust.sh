#!/usr/bin/env bash
# Clippy over every target, a warning being an error. Without arguments the benches are left out, which need crates of
# their own: lint_rust.sh --workspace has them too.
set -euo pipefail
cargo clippy --quiet --locked "$@" --all-targets --features tidegate-python/abi3 -- -D warnings
