#!/usr/bin/env bash
# Fails when a Rust file is not formatted; `make format` formats it.
set -euo pipefail
cargo fmt --all --check
