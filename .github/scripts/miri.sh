#!/usr/bin/env bash
# The tests of what threads share, and of the small structures, under Miri, which sees undefined behaviour in each step:
# memory used beyond its life or its bounds, uninitialised values, races, broken aliasing rules. Needs a nightly toolchain
# with the components `miri` and `rust-src`.
#
# Pages that the kernel gives and wide instructions are unknown to Miri, so their tests are left out: stress.sh and
# stress_module.sh have the sanitizers for them.
set -euo pipefail
# Time and files are what a few tests ask for. A step takes a hundred times as long, so random tests get few cases.
export MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4
cargo +nightly miri test --quiet --locked -p tidegate-sync --lib
cargo +nightly miri test --quiet --locked -p tidegate-structures --lib -- gate:: bits:: select:: bitmaps::
cargo +nightly miri test --quiet --locked -p tidegate-papers --lib -- row_gate:: hive::
cargo +nightly miri test --quiet --locked -p tidegate-structures -p tidegate-papers --test all -- api_gate:: --skip ten_thousand_sources_are_merged
