#!/usr/bin/env bash
# Builds the wheel for publication, for the current Python, in dist/.
set -euo pipefail
rm -f dist/*.whl
maturin build --locked --profile dist --interpreter python --out dist
