#!/usr/bin/env bash
# The Python tests whose files use none of the libraries that have no free-threaded build yet.
set -euo pipefail

mapfile -t files < <(grep -L -E 'duckdb|polars|pyspark|spark_session' tests/python/test_*.py)
if [[ ${#files[@]} -eq 0 ]]; then
    echo "every test file needs duckdb, polars or Spark" >&2
    exit 1
fi
.github/scripts/test_python.sh "${files[@]}"
