#!/usr/bin/env bash
# Feeds the fuzz targets with libFuzzer, so many seconds each: fuzz.sh 60, or some of them: fuzz.sh 60 join merge.
# What each finds anew stays in target/fuzz/corpus; an input that fails is in target/fuzz/failed.
# Linux only.
set -euo pipefail

seconds=$1
targets=("${@:2}")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(ls tests/fuzz/seeds)

# What cargo-fuzz sets for a stable compiler (`-s none`): all of it is stable.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares"
folder=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc --print host-tuple)
# With a target, flags do not reach build scripts.
CARGO_TARGET_DIR=$folder cargo build --quiet --locked --target "$host" -p tidegate-fuzz --features libfuzzer

failed=()
for target in "${targets[@]}"; do
    corpus=$folder/corpus/$target
    mkdir -p "$corpus" "$folder/failed/$target"
    echo "== $target"
    TARGET=$target "$folder/$host/debug/fuzz" "$corpus" "tests/fuzz/seeds/$target" -max_total_time="$seconds" \
        -timeout=60 -rss_limit_mb=4096 -max_len=4096 -artifact_prefix="$folder/failed/$target/" -print_final_stats=1 \
        2> "$folder/$target.log" || failed+=("$target")
    grep -E '^stat::number_of_executed_units|cov:|^==|panicked|SUMMARY|Test unit written' "$folder/$target.log" | tail -n 5
done
if [[ ${#failed[@]} -gt 0 ]]; then
    echo "failed: ${failed[*]}; their inputs are in $folder/failed, tests/README.md says how to go on" >&2
    exit 1
fi
