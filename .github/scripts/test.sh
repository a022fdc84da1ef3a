#!/usr/bin/env bash
# Runs all tests. Clippy and the Rust tests use the processor while the Python tests wait for Spark,
# processes and signals. The output of the Rust tests is printed at the end.
set -euo pipefail
scripts=$(dirname "$0")
"$scripts/format_rust.sh"

printed=$(mktemp)
# The Python tests write to this file which tests they skipped, and why.
SKIPPED_TESTS=$(mktemp)
export SKIPPED_TESTS
echo "unknown, because pytest did not finish" > "$SKIPPED_TESTS"
# If rustc.sh is the compiler, Clippy has already checked each crate that the tests use.
lint_rust() {
    [[ ${RUSTC_WORKSPACE_WRAPPER-} == *rustc.sh ]] || "$scripts/lint_rust.sh"
}
(lint_rust && nice "$scripts/test_rust.sh") > "$printed" 2>&1 &
rust=$!
# The background jobs, including their compilers and tests, are stopped when this script ends.
trap 'pkill -P "$rust" 2> /dev/null || true; kill "$rust" 2> /dev/null || true; rm -f "$printed" "$SKIPPED_TESTS"' EXIT

# Random tests try fewer cases than when a file is run alone. Campaigns try more.
export CAMPAIGN=${CAMPAIGN:-0.25}
failed=0
"$scripts/test_python.sh" || failed=1
echo "Clippy and the Rust tests:"
wait "$rust" || failed=1
cat "$printed"
echo "Skipped Python tests:"
cat "$SKIPPED_TESTS"
exit "$failed"
