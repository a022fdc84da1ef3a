#!/usr/bin/env bash
# Builds the module for tests and installs it with all extras and the given dependency groups:
# develop.sh --group check. The lock determines their versions. While the module compiles, pip
# downloads and unpacks the packages and Spark, which takes minutes. maturin never runs twice at the
# same time, because two runs would overwrite each other's files.
set -euo pipefail
lock=.github/requirements-dev.txt
# Crates are downloaded while pip installs maturin.
cargo fetch --quiet --locked --target "$(rustc --print host-tuple)" &
crates=$!
pip install --constraint "$lock" --group build
wait "$crates"
# Bytecode is not compiled here, because Python compiles the few modules that it imports.
"$(dirname "$0")/packages.sh" --constraint "$lock" --no-compile "$@" &
packages=$!
maturin develop --quiet --skip-install
wait "$packages"
maturin develop --quiet --extras cli,spark # compiles nothing more
