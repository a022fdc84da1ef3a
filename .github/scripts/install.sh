#!/usr/bin/env bash
# Builds the package with optimisations and installs it with its command and its Spark support.
# While the package compiles, pip downloads and unpacks Spark, which takes a minute.
set -euo pipefail
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
"$(dirname "$0")/packages.sh" &
packages=$!
pip wheel --no-deps --wheel-dir "$wheel" .
wait "$packages"
pip install --no-deps --force-reinstall "$wheel"/*.whl
