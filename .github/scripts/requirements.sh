#!/usr/bin/env bash
# Prints the dependencies of the package with all extras, one per line, so that pip can install them
# while the package compiles.
set -euo pipefail
python -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print("\n".join(project["dependencies"] + sum(project["optional-dependencies"].values(), [])))'
