#!/usr/bin/env bash
# Runs the tests of the structures, the published structures and the imports under valgrind. It
# detects values that depend on uninitialised memory, which the sanitizers of the stable toolchain
# do not. valgrind supports AVX2 but not AVX-512, so the narrower loops run. Needs valgrind on
# Linux. Arguments select tests: valgrind.sh records.
set -euo pipefail

runner="valgrind --quiet --error-exitcode=1 --leak-check=no --max-stackframe=8000000"
triple=$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${triple}_RUNNER=$runner"
# valgrind is thirty times slower, so random tests try only a few cases.
export PROPTEST_CASES=4
cargo test --quiet --locked -p tidegate-structures --lib -- --test-threads=1 "$@"
published=("$@")
[[ $# -gt 0 ]] || published=(hive:: pieces:: row_gate:: time_travel:: trees::)
cargo test --quiet --locked -p tidegate-papers --lib -- --test-threads=1 "${published[@]}"
cargo test --quiet --locked -p tidegate-import --test round_trip -- --test-threads=1 "$@"
