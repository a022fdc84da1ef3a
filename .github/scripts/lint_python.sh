#!/usr/bin/env bash
# Checks the lints and the format of every Python file. `make format` formats them.
set -euo pipefail
ruff check .
ruff format --check .
