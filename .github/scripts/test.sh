#!/usr/bin/env bash
# All tests. The Python tests wait for Spark, for processes and for signals; meanwhile Clippy and the Rust tests use the
# processor. The output of Rust comes at the end.
set -euo pipefail
scripts=$(dirname "$0")
"$scripts/format_rust.sh"

printed=$(mktemp)
# The Python tests write here which tests they skipped, and why.
SKIPPED_TESTS=$(mktemp)
export SKIPPED_TESTS
# Where the compiler lints (rustc.sh), Clippy has seen each crate that the tests have run.
lint_rust() {
    [[ ${RUSTC_WORKSPACE_WRAPPER-} == *rustc.sh ]] || "$scripts/lint_rust.sh"
}
(lint_rust && nice "$scripts/test_rust.sh") > "$printed" 2>&1 &
rust=$!
# The group of the background, with its compilers and tests, ends with this script.
trap 'pkill -P "$rust" 2> /dev/null || true; kill "$rust" 2> /dev/null || true; rm -f "$printed" "$SKIPPED_TESTS"' EXIT

# Random tests try half of what a single file tries; campaigns are for more.
export CAMPAIGN=${CAMPAIGN:-0.5}
failed=0
"$scripts/test_python.sh" || failed=1
echo "Clippy and the Rust tests:"
wait "$rust" || failed=1
cat "$printed"
echo "Skipped Python tests:"
cat "$SKIPPED_TESTS"
exit "$failed"
