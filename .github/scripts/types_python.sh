#!/usr/bin/env bash
# Types in strict mode, and stubs that agree with what the Rust module exports: no test asks mypy for that, which takes it
# half a minute.
set -euo pipefail
mypy
python -m mypy.stubtest tidegate._tidegate --mypy-config-file pyproject.toml
