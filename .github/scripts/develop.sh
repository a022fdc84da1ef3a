#!/usr/bin/env bash
# Builds the module for tests and installs it with all extras and the given dependency groups:
# develop.sh --group check. While the module compiles, pip downloads and unpacks the packages and
# Spark, which takes minutes. maturin never runs twice at the same time, because two runs would
# overwrite each other's files.
set -euo pipefail
# Crates are downloaded while pip installs maturin.
cargo fetch --quiet --locked --target "$(rustc --print host-tuple)" &
crates=$!
pip install --group build
wait "$crates"
# Bytecode is not compiled here, because Python compiles the few modules that it imports.
"$(dirname "$0")/packages.sh" --no-compile "$@" &
packages=$!
maturin develop --quiet --skip-install
wait "$packages"
maturin develop --quiet --extras cli,spark # compiles nothing more
