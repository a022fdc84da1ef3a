#!/usr/bin/env bash
# Runs the Python tests of imports, joins and operators with a module built with AddressSanitizer.
# It detects accesses to memory outside its bounds or after it was freed, including memory from
# pyarrow.
#
# Rust has no UndefinedBehaviorSanitizer. Debug assertions replace it, here and in every build for
# tests. With them, the compiler checks arithmetic, null and misaligned pointers, and enum values.
# Unsafe functions of the standard library check their arguments: indexes, overlapping copies,
# pointers of slices, and unreachable code. They do not detect strings that are not UTF-8, booleans
# that are neither true nor false, and uninitialised memory. Linux on x86-64 only. Arguments are
# passed to pytest: stress_module.sh -k nulls.
set -euo pipefail

target=$(realpath -m "${CARGO_TARGET_DIR:-target}/address")
triple=x86_64-unknown-linux-gnu
flags="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer -Cdebuginfo=line-tables-only"
export RUSTC_BOOTSTRAP=1

# The sanitizer's runtime has to be loaded before the program starts, so a module cannot include it.
# GCC provides it as a library.
runtime=$(gcc -print-file-name=libasan.so)
sanitized() {
    # Other allocators would keep freed memory. Memory that Python does not free at exit is not a
    # leak.
    env LD_PRELOAD="$runtime" PYTHONPATH="$target/module" PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system \
        ASAN_OPTIONS=detect_leaks=0 "$@"
}

# First verifies that each planted fault is found by the intended check: finds FUNCTION MESSAGE.
mkdir -p "$target"
rustc --edition 2024 --crate-type cdylib -Cdebug-assertions=on --target $triple -o "$target/planted.so" \
    $flags .github/scripts/planted.rs
finds() {
    local found
    found=$(sanitized python -c "import ctypes; ctypes.CDLL('$target/planted.so').$1(10); print('not found')" 2>&1 || true)
    if [[ $found != *"$2"* ]]; then
        printf 'planted.rs: %s: expected "%s", got:\n%s\n' "$1" "$2" "$found" >&2
        exit 1
    fi
}
finds read_past_the_end "AddressSanitizer: heap-buffer-overflow"
finds read_after_free "AddressSanitizer: heap-use-after-free"
finds unchecked_index "unsafe precondition(s) violated"
finds overflow "attempt to add with overflow"
finds nothing "not found"

# Optimisation is disabled, because it would take most of the time.
CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTFLAGS=$flags CARGO_TARGET_DIR=$target maturin build --quiet --locked --profile dev \
    --target $triple --interpreter python --auditwheel skip --out "$target/wheels"
python -m pip install --quiet --no-deps --upgrade --target "$target/module" "$target"/wheels/*.whl
# Makes sure that the tests use this build.
sanitized python -c 'import tidegate._tidegate as module; assert "address/module" in module.__file__, module.__file__'

tests=(bad_arrow bad_input payload_types keys interval_join band_join window_join aggregate merge merge_sources)
tests+=(streaming_join streaming_join_sources streaming_join_state streaming_band_join streaming_window_join streaming_aggregate)
files=("${tests[@]/#/tests/python/test_}")
sanitized python -m pytest --quiet --numprocesses 0 "$@" "${files[@]/%/.py}"
