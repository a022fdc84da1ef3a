#!/usr/bin/env bash
# Runs Clippy and the unit tests of the structures, the operators and the published algorithms for
# 64-bit ARM, in an emulator, with NEON and with portable instructions. This works on any Linux
# system on x86-64, but it does not measure speed. Arguments select tests: aarch64.sh simd index.
set -euo pipefail

target=aarch64-unknown-linux-gnu
lacks() {
    echo "aarch64.sh: $1 is missing: $2" >&2
    exit 1
}
[[ -d $(rustc --print target-libdir --target $target) ]] || lacks "Rust's library for $target" "rustup target add $target"
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || lacks $tool "apt-get install gcc-aarch64-linux-gnu qemu-user"
done

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
cargo clippy --quiet --locked --target $target -p tidegate-structures -p tidegate-operators -p tidegate-papers --all-targets -- -D warnings
unit_tests() {
    cargo test --quiet --locked --target $target --lib "$@"
}
for instructions in neon portable; do
    export TIDEGATE_SIMD=$instructions
    unit_tests -p tidegate-structures -- "$@"
    # The emulator is slow, so random tests try fewer cases. Two tests that would take minutes are
    # skipped: the schedules of the handshake join, and the indexed ScaleJoin, whose threads spin.
    PROPTEST_CASES=32 unit_tests -p tidegate-operators -p tidegate-papers -- --skip schedules --skip looking_rows_up "$@"
done
