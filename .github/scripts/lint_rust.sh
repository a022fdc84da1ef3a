#!/usr/bin/env bash
# Clippy over every target, a warning being an error.
set -euo pipefail
cargo clippy --quiet --locked --workspace --all-targets --features tidegate-python/abi3 -- -D warnings
