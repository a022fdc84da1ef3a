#!/usr/bin/env bash
# Runs every Rust test, including doctests. The benches have no tests, so they are not compiled.
# Arguments are passed to cargo: test_rust.sh -p tidegate-operators. Tests that take longer than a
# minute are listed. If the system has `timeout`, the whole run is limited to 40 minutes.
set -euo pipefail
limit=$(command -v timeout || true)
${limit:+"$limit" --foreground 2400} cargo test --quiet --locked "$@"
