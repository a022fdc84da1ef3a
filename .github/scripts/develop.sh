#!/usr/bin/env bash
# Builds the module for tests and installs it with all extras, and with the groups that are named: develop.sh --group check.
# pip loads and unpacks these and Spark, which takes minutes, while it compiles. maturin runs once at a time: two of them
# take each other's files.
set -euo pipefail
# Crates are loaded while pip loads maturin.
cargo fetch --quiet --locked --target "$(rustc --print host-tuple)" &
crates=$!
pip install --group build
wait "$crates"
# Python compiles the few modules that it imports, when it does.
"$(dirname "$0")/packages.sh" --no-compile "$@" &
packages=$!
maturin develop --quiet --skip-install
wait "$packages"
maturin develop --quiet --extras cli,spark # compiles nothing more
