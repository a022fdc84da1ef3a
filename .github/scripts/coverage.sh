#!/usr/bin/env bash
# Runs the Rust and Python tests with counters in the code, and reports the lines of each room and the unsafe blocks that
# they reach: coverage.sh [ARGUMENTS OF PYTEST]. The report is target/coverage/report.md.
# Needs the commands of llvm_profparser: cargo install --locked llvm_profparser
set -euo pipefail
# Random tests try a fifth: a line is reached by the first tries, or by none.
export CAMPAIGN=${CAMPAIGN:-0.2}

if ! command -v profparser > /dev/null; then
    echo "profparser reads the counters; install it: cargo install --locked llvm_profparser" >&2
    exit 1
fi
folder=$PWD/target/coverage
rm -rf "$folder"/{profiles,report.md,rust.txt,python.json}
mkdir -p "$folder/profiles"

# Counters in our crates alone: all others would compile anew and run slower, and nobody asks about them.
cat > "$folder/rustc" << 'WRAPPER'
#!/bin/sh
exec "$@" -C instrument-coverage
WRAPPER
chmod +x "$folder/rustc"
export RUSTC_WORKSPACE_WRAPPER=$folder/rustc CARGO_TARGET_DIR=$folder/build CARGO_INCREMENTAL=0
# Processes of one binary add to the same files.
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
data_file = $folder/python.data
parallel = true
patch = subprocess
SETTINGS
PYTHONPATH=$package COVERAGE_PROCESS_START=$folder/coveragerc \
    python -m coverage run --rcfile "$folder/coveragerc" -m pytest --quiet --numprocesses 2 --dist loadfile "$@" || failed=1
python -m coverage combine --quiet --rcfile "$folder/coveragerc"
python -m coverage json --quiet --rcfile "$folder/coveragerc" -o "$folder/python.json"

profparser merge --input "$folder"/profiles/*.profraw --output "$folder/all.profdata"
mapfile -t objects < <(python .github/scripts/coverage.py objects "$folder/built.json")
for object in "${objects[@]}" "$package/tidegate/_tidegate.abi3.so"; do
    cov show --instr-profile "$folder/all.profdata" --object "$object"
done > "$folder/rust.txt"
python .github/scripts/coverage.py report "$folder/rust.txt" "$folder/python.json" | tee "$folder/report.md"
exit "$failed"
