#!/usr/bin/env bash
# Stress-tests tidegate for a number of hours: campaign.sh 2. The first half of the time is spent on
# fuzz targets. In the second half, each random test tries 20 times as many cases per hour as in
# `make test`. The output of both parts is in target/campaign.
set -euo pipefail

hours=$1
folder=${CARGO_TARGET_DIR:-target}/campaign
mkdir -p "$folder"
failed=0

targets=$(find tests/fuzz/seeds -mindepth 1 -maxdepth 1 -type d | wc -l)
seconds=$(awk -v hours="$hours" -v targets="$targets" 'BEGIN { printf "%d", hours * 1800 / targets + 1 }')
.github/scripts/fuzz.sh "$seconds" 2>&1 | tee "$folder/fuzz.txt" || failed=1

factor=$(awk -v hours="$hours" 'BEGIN { printf "%d", hours * 10 + 1 }')
mapfile -t files < <(grep -lE 'import campaign|from cases|from hypothesis|from campaign' tests/python/test_*.py)
CAMPAIGN=$factor .github/scripts/test_python.sh -o faulthandler_timeout=$((900 * factor)) "${files[@]}" 2>&1 | tee "$folder/tests.txt" || failed=1

exit "$failed"
