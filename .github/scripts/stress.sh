#!/usr/bin/env bash
# Tests the gates, the hive, the aggregation designs and the tasks of the index join with more
# threads than cores. The tests run unchanged, then with their rare code paths taken all the time,
# and then also under AddressSanitizer and ThreadSanitizer, which a stable toolchain enables through
# an environment variable. Linux on x86-64 only. Arguments select tests, except under
# ThreadSanitizer: stress.sh shared.
set -euo pipefail

target=${CARGO_TARGET_DIR:-target}
# Each set of flags has its own folder, because it requires recompiling everything: stress FOLDER
# FLAGS [ARGUMENTS FOR CARGO].
stress() {
    RUSTFLAGS=$2 CARGO_TARGET_DIR=$target/$1 cargo test --quiet --locked -p tidegate-structures \
        --test all "${@:3}" -- --ignored --test-threads=1 "${tests[@]}"
    RUSTFLAGS=$2 CARGO_TARGET_DIR=$target/$1 cargo test --quiet --locked -p tidegate-papers --lib --test all \
        "${@:3}" -- --ignored --test-threads=1 "${tests[@]}"
}
tests=("$@")
rare="--cfg tidegate_stress"
stress stress "" --release
stress stress "$rare" --release

export RUSTC_BOOTSTRAP=1
sanitized="$rare -Cunsafe-allow-abi-mismatch=sanitizer -Cdebuginfo=line-tables-only"
stress address "$sanitized -Zsanitizer=address" --target x86_64-unknown-linux-gnu
# Of the gate tests, only those of the row gate run here; stress_gate.rs explains why. The tasks of
# the index join do not run here either: they share mutexes of the standard library, which is not
# instrumented, so each contended lock would be reported as a data race.
tests=(rows shared stress_hive)
TSAN_OPTIONS="suppressions=$PWD/rust/structures/tests/thread_sanitizer.txt" \
    stress thread "$sanitized -Zsanitizer=thread" --target x86_64-unknown-linux-gnu
