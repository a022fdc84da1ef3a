#!/usr/bin/env bash
# The Python tests of imports, joins and operators on a module built with AddressSanitizer, which sees memory that is read or
# written beyond its bounds or after it was given back; the memory that pyarrow hands over as well.
#
# Rust has no UndefinedBehaviorSanitizer. Debug assertions stand for it, here as in every build for tests. With them the
# compiler checks sums, null and misaligned pointers and the values of enums, and unsafe functions of the standard library
# check what they are asked for: indexes, overlapping copies, pointers of slices, what cannot be reached. Not seen are text
# that is no UTF-8, flags that are neither true nor false, and memory that was never written.
# Linux on x86-64 only. Arguments go to pytest: stress_module.sh -k nulls.
set -euo pipefail

target=$(realpath -m "${CARGO_TARGET_DIR:-target}/address")
triple=x86_64-unknown-linux-gnu
flags="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer -Cdebuginfo=line-tables-only"
export RUSTC_BOOTSTRAP=1

# A module cannot bring the sanitizer's runtime, which has to be there before the program starts. GCC has it as a library.
runtime=$(gcc -print-file-name=libasan.so)
sanitized() {
    # Allocators of others would keep what is given back; what Python leaves at its end is no leak.
    env LD_PRELOAD="$runtime" PYTHONPATH="$target/module" PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system \
        ASAN_OPTIONS=detect_leaks=0 "$@"
}

# First, that planted faults are found, each by the check that is to find it: finds FUNCTION MESSAGE.
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

# Without optimisation, which would take most of the time here.
CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTFLAGS=$flags CARGO_TARGET_DIR=$target maturin build --quiet --locked --profile dev \
    --target $triple --interpreter python --auditwheel skip --out "$target/wheels"
python -m pip install --quiet --no-deps --upgrade --target "$target/module" "$target"/wheels/*.whl
# The tests must not run on another build.
sanitized python -c 'import tidegate._tidegate as module; assert "address/module" in module.__file__, module.__file__'

tests=(bad_arrow bad_input payload_types keys interval_join band_join window_join aggregate merge merge_sources)
tests+=(streaming_join streaming_join_sources streaming_join_state streaming_band_join streaming_window_join streaming_aggregate)
files=("${tests[@]/#/tests/python/test_}")
sanitized python -m pytest --quiet --numprocesses 0 "$@" "${files[@]/%/.py}"
