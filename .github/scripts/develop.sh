#!/usr/bin/env bash
# Builds the module for tests and installs it with all extras, and the tools. pip loads and unpacks these and Spark, which
# takes minutes, while it compiles. maturin runs once at a time: two of them take each other's files.
set -euo pipefail
requirements=$(python -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print("\n".join(project["dependencies"] + sum(project["optional-dependencies"].values(), [])))')
pip install --group build
pip install --requirement <(echo "$requirements") --group check --group docs --group test &
packages=$!
maturin develop --quiet --skip-install
wait "$packages"
maturin develop --quiet --extras cli,spark # compiles nothing more
