#!/usr/bin/env bash
# Runs the Rust and Python tests with coverage counters, and reports the lines of each folder and
# the unsafe blocks that they reach: coverage.sh [ARGUMENTS FOR PYTEST]. The report is written to
# target/coverage/report.md. It excludes Spark, whose tests are slow and run in processes that Spark
# starts. Needs llvm-profdata and llvm-cov: `rustup component add llvm-tools`, or LLVM 19 or later,
# for instance from `apt install llvm-19`.
set -euo pipefail
# Random tests try a fifth of their cases, because the first cases reach nearly every line that any
# case reaches.
export CAMPAIGN=${CAMPAIGN:-0.2}

tool() {
    local found
    for found in "$(rustc --print sysroot)/lib/rustlib/$(rustc --print host-tuple)/bin/$1" "$1"-{25..19} "$1"; do
        command -v "$found" && return
    done
    echo "$1 reads the counters; install it: rustup component add llvm-tools, or apt install llvm-19" >&2
    return 1
}
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)
folder=$PWD/target/coverage
rm -rf "$folder"/{profiles,report.md,rust.lcov,python.json}
mkdir -p "$folder/profiles"

# Only our own crates get counters. With counters, all other crates would have to be recompiled and
# would run slower.
cat > "$folder/rustc" << 'WRAPPER'
#!/bin/sh
exec "$@" -C instrument-coverage
WRAPPER
chmod +x "$folder/rustc"
export RUSTC_WORKSPACE_WRAPPER=$folder/rustc CARGO_TARGET_DIR=$folder/build CARGO_INCREMENTAL=0
# All processes of a binary add to the same file.
export LLVM_PROFILE_FILE=$folder/profiles/%4m.profraw
failed=0
cargo test --quiet --locked --no-run --message-format json > "$folder/built.json"
cargo test --quiet --locked --lib --tests || failed=1

package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
cargo build --quiet --locked --package tidegate-python --features abi3
cp -r python/tidegate "$package"
rm -f "$package"/tidegate/_tidegate.*so
cp "$folder/build/debug/lib_tidegate.so" "$package/tidegate/_tidegate.abi3.so"
cat > "$folder/coveragerc" << SETTINGS
[run]
branch = false
source = tidegate
omit = */tidegate/spark/*
data_file = $folder/python.data
parallel = true
patch = subprocess
SETTINGS
PYTHONPATH=$package COVERAGE_PROCESS_START=$folder/coveragerc \
    python -m coverage run --rcfile "$folder/coveragerc" -m pytest --quiet --numprocesses 2 --dist loadfile --ignore-glob "*/test_spark*" "$@" || failed=1
python -m coverage combine --quiet --rcfile "$folder/coveragerc"
python -m coverage json --quiet --rcfile "$folder/coveragerc" -o "$folder/python.json"

# A file is incomplete if its process was killed during the write.
"$profdata" merge --sparse --failure-mode=all "$folder"/profiles/*.profraw --output "$folder/all.profdata"
objects=(--object "$package/tidegate/_tidegate.abi3.so")
for object in $(python .github/scripts/coverage.py objects "$folder/built.json"); do
    objects+=(--object "$object")
done
"$cov" export --format=lcov --instr-profile "$folder/all.profdata" "${objects[@]}" > "$folder/rust.lcov"
python .github/scripts/coverage.py report "$folder/rust.lcov" "$folder/python.json" | tee "$folder/report.md"
exit "$failed"
