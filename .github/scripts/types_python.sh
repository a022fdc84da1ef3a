#!/usr/bin/env bash
# Checks types in strict mode, and checks that the stubs match the exports of the Rust module. No
# test runs mypy, because it takes half a minute.
set -euo pipefail
mypy
python -m mypy.stubtest tidegate._tidegate --mypy-config-file pyproject.toml
