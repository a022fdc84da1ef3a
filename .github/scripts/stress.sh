#!/usr/bin/env bash
# The gates, the hive, the designs of aggregation and the tasks of the index join under more threads than cores: as they
# are; with their rare paths taken all the time; and so under AddressSanitizer and ThreadSanitizer, which the stable
# toolchain has behind a variable.
# Linux on x86-64 only.
# Arguments choose some tests, but for the last: stress.sh shared.
set -euo pipefail

target=${CARGO_TARGET_DIR:-target}
# A folder for each set of flags, since everything is built anew with them: stress FOLDER FLAGS [ARGUMENTS OF CARGO].
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
# Of the gates, the row gate's tests only: see stress_gate.rs.
tests=(rows shared stress_hive stress_tasks)
TSAN_OPTIONS="suppressions=$PWD/rust/structures/tests/thread_sanitizer.txt" \
    stress thread "$sanitized -Zsanitizer=thread" --target x86_64-unknown-linux-gnu
