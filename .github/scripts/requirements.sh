#!/usr/bin/env bash
# Prints what the package needs with all extras, a line each, so that pip can load it while the package compiles.
set -euo pipefail
python -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print("\n".join(project["dependencies"] + sum(project["optional-dependencies"].values(), [])))'
