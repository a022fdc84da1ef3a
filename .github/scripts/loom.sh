#!/usr/bin/env bash
# Runs every loom model, which explores all interleavings of small cases of shared structures, and
# prints the number of interleavings. Arguments select models: loom.sh reclaim.
set -euo pipefail
# The flag `loom` requires recompiling everything. A separate folder preserves the other builds.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
RUSTFLAGS="--cfg loom" cargo test --quiet --locked -p tidegate-sync -p tidegate-structures -p tidegate-papers \
    --test loom_sync --test all -- --nocapture "$@"
