#!/usr/bin/env bash
# Runs the tests of shared structures and of small structures under Miri, which detects undefined
# behaviour at each step: use after free, accesses out of bounds, uninitialised values, data races
# and broken aliasing rules. Needs a nightly toolchain with the components `miri` and `rust-src`.
#
# Miri does not support memory pages from the kernel or wide vector instructions, so their tests are
# skipped. stress.sh and stress_module.sh run these tests under sanitizers.
set -euo pipefail
# A few tests use the clock and files, so isolation is disabled. Miri is a hundred times slower, so
# random tests try only a few cases.
export MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4
cargo +nightly miri test --quiet --locked -p tidegate-sync --lib
cargo +nightly miri test --quiet --locked -p tidegate-structures --lib -- gate:: bits:: select:: bitmaps::
cargo +nightly miri test --quiet --locked -p tidegate-papers --lib -- row_gate:: hive::
cargo +nightly miri test --quiet --locked -p tidegate-structures -p tidegate-papers --test all -- api_gate:: --skip ten_thousand_sources_are_merged
