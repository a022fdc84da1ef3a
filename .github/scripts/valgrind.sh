#!/usr/bin/env bash
# The tests of structures, published ones among them, and of imports under valgrind, which sees values that depend on
# memory nobody has written: the sanitizers of the stable toolchain do not. It knows AVX2 and no AVX-512, so that the narrower loops run.
# Needs valgrind; Linux only. Arguments choose some tests: valgrind.sh records.
set -euo pipefail

runner="valgrind --quiet --error-exitcode=1 --leak-check=no --max-stackframe=8000000"
triple=$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${triple}_RUNNER=$runner"
# A step takes thirty times as long, so random tests get few cases.
export PROPTEST_CASES=4
cargo test --quiet --locked -p tidegate-structures --lib -- --test-threads=1 "$@"
published=("$@")
[[ $# -gt 0 ]] || published=(hive:: pieces:: row_gate:: time_travel:: trees::)
cargo test --quiet --locked -p tidegate-papers --lib -- --test-threads=1 "${published[@]}"
cargo test --quiet --locked -p tidegate-import --test round_trip -- --test-threads=1 "$@"
