#!/usr/bin/env bash
# Types in strict mode, and stubs that agree with what the Rust module exports.
set -euo pipefail
mypy
python -m mypy.stubtest tidegate._tidegate --mypy-config-file pyproject.toml
