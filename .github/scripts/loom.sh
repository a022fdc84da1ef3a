#!/usr/bin/env bash
# Every loom model: all interleavings of small cases of what threads share, and how many those were. Arguments choose some:
# loom.sh reclaim.
set -euo pipefail
# Everything is built anew with this flag, so not where other builds would be thrown away for it.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
RUSTFLAGS="--cfg loom" cargo test --quiet --locked -p tidegate-sync -p tidegate-structures -p tidegate-papers \
    --test loom_sync --test all -- --nocapture "$@"
