#!/usr/bin/env bash
# Counts the instructions of the interval join before and after a change, and fails if a case
# executes over 3 % more: instructions.sh BASE [PERCENT], where BASE is a commit. Needs valgrind.
set -euo pipefail
scripts=$(realpath "$(dirname "$0")")
folder=$PWD/target/instructions
base=$folder/base

# Builds the benchmark from the current directory, and prints its path.
build() {
    CARGO_TARGET_DIR=$folder/build cargo bench --quiet --locked --no-run --message-format json \
        --package tidegate-benches --bench interval_join > "$folder/built.json"
    python3 -c '
import json, sys
built = [json.loads(line) for line in open(sys.argv[1])]
print(*(one["executable"] for one in built if one.get("target", {}).get("name") == "interval_join"))' "$folder/built.json"
}

mkdir -p "$folder"
git worktree remove --force "$base" 2> /dev/null || true
git worktree add --quiet --detach "$base" "$1"
trap 'git worktree remove --force "$base"' EXIT
cp "$(cd "$base" && build)" "$folder/before"
cp "$(build)" "$folder/after"
python3 "$scripts/instructions.py" "$folder/before" "$folder/after" "${@:2}"
