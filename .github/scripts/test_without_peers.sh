#!/usr/bin/env bash
# Runs the Python test files that do not use libraries without a free-threaded build.
set -euo pipefail

mapfile -t files < <(grep -L -E 'duckdb|polars|pyspark|spark_session' tests/python/test_*.py)
if [[ ${#files[@]} -eq 0 ]]; then
    echo "every test file needs duckdb, polars or Spark" >&2
    exit 1
fi
.github/scripts/test_python.sh "${files[@]}"
