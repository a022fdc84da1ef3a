#!/usr/bin/env bash
# Builds the wheel that is published, for the current Python, into dist/.
set -euo pipefail
rm -f dist/*.whl
maturin build --locked --profile dist --interpreter python --out dist
