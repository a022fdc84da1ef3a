#!/usr/bin/env bash
# Builds the wheel and runs calls on tables with each version of PySpark that the package supports,
# or with the given ones: test_spark_versions.sh 4.0 4.3. Needs Java 17.
#
# PySpark 3.5 has no streams here and needs Python 3.11.
set -euo pipefail

scripts=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[[ $# -gt 0 ]] || set -- 3.5 4.0 4.1 4.2 4.3

python -m pip wheel --quiet --no-deps --wheel-dir "$folder" --config-settings maturin.build-args='--profile dev' .
for version in "$@"; do
    "$scripts/environment.sh" python "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet "pyspark==$version.*" 'pandas>=2.2' 'protobuf>=5' "$folder"/*.whl
    "$folder/$version/bin/python" tests/python/spark_calls.py
done
