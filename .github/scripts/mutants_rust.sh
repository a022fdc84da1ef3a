#!/usr/bin/env bash
# Makes one change at a time to Rust files of a crate, and lists the changes that no test of that
# crate detects: mutants_rust.sh tidegate-structures 'rust/structures/src/gate/**'. Further
# arguments are passed to cargo-mutants: --shard 0/10 --sharding round-robin tries every tenth
# change, and -C=--lib runs only the unit tests. Needs cargo-mutants 27. Works in a copy, and writes
# results to target/mutants.
set -euo pipefail

if [[ $# -lt 2 ]]; then
    echo "usage: $0 CRATE FILES [ARGUMENTS...], FILES being a glob, as in 'rust/structures/src/gate/**'" >&2
    exit 2
fi
mkdir -p target/mutants
cargo mutants --package "$1" --test-package "$1" --file "$2" --jobs "${JOBS:-1}" --timeout 60 \
    --output "target/mutants/$1" "${@:3}"
