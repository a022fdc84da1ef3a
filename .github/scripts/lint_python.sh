#!/usr/bin/env bash
# Lints and format of every Python file; `make format` formats them.
set -euo pipefail
ruff check .
ruff format --check .
