#!/usr/bin/env bash
# Runs fuzz targets with libFuzzer for a number of seconds each: fuzz.sh 60, or fuzz.sh 60 join
# merge for some targets only. New inputs are kept in target/fuzz/corpus, and failing inputs in
# target/fuzz/failed. Linux only.
set -euo pipefail

seconds=$1
targets=("${@:2}")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(ls tests/fuzz/seeds)

# These are the flags that cargo-fuzz sets without a sanitizer (`-s none`); all of them are stable.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares"
folder=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc --print host-tuple)
# With an explicit target, the flags do not apply to build scripts.
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
    echo "failed: ${failed[*]}; their inputs are in $folder/failed; see tests/README.md" >&2
    exit 1
fi
