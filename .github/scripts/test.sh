#!/usr/bin/env bash
# Every test: lints and Rust tests beside the Python tests. While one of them links, waits for Spark or has one long test
# left, the other computes. Each goes on when the other fails. What Rust says comes in one piece, at its end.
#
# Rust computes when Python does not: Spark gives a Python process ten seconds to start.
set -euo pipefail

part_rust() {
    local said failed=0
    said=$({ nice -n 19 .github/scripts/lint_rust.sh && nice -n 19 .github/scripts/test_rust.sh; } 2>&1) || failed=$?
    printf '\n%s\n' "$said"
    return "$failed"
}
part_python() {
    .github/scripts/test_python.sh
}
export -f part_rust part_python

# Not in the shell's background, whose processes would not hear of Ctrl-C.
printf '%s\n' part_python part_rust | xargs -n 1 -P 2 bash -c '$0'
