#!/usr/bin/env bash
# Changes Rust files of a crate in one place at a time, and lists the changes that no test of that crate notices:
# mutants_rust.sh tidegate-structures 'rust/structures/src/gate/**'
# Arguments after these go to cargo-mutants: --shard 0/10 --sharding round-robin tries every tenth change, and -C=--lib
# runs the unit tests only. Needs cargo-mutants 27; works in a copy, and writes what it found to target/mutants.
set -euo pipefail

if [[ $# -lt 2 ]]; then
    echo "usage: $0 CRATE FILES [ARGUMENTS...], FILES being a glob, as in 'rust/structures/src/gate/**'" >&2
    exit 2
fi
mkdir -p target/mutants
cargo mutants --package "$1" --test-package "$1" --file "$2" --jobs "${JOBS:-1}" --timeout 60 \
    --output "target/mutants/$1" "${@:3}"
