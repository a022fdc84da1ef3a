#!/usr/bin/env bash
# Fails if a Rust file is not formatted. `make format` formats all files.
set -euo pipefail
cargo fmt --all --check
