#!/usr/bin/env bash
# Builds the module for tests and installs it with all extras. It compiles while pip unpacks Spark, which takes a minute.
set -euo pipefail
maturin develop --quiet --skip-install &
build=$!
maturin develop --quiet --extras cli,spark
wait "$build"
