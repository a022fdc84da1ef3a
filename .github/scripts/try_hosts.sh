#!/usr/bin/env bash
# Runs the examples for Dask and Ray in docs/any-cluster.md. They run in a separate environment,
# because Dask and Ray need many packages. The environment uses the module that the checkout
# contains: try_hosts.sh PYTHON.
set -euo pipefail

scripts=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$scripts/environment.sh" "${1:-python}" "$folder"
"$folder/bin/python" -m pip install --quiet 'dask[dataframe,distributed]==2026.8.*' 'ray[data]==2.60.*' \
    hypothesis numpy pandas pyarrow pytest pytest-timeout
export PYTHONPATH=$PWD/python
"$folder/bin/python" -c 'import dask.distributed, ray.data, tidegate' # so that no test is skipped
"$folder/bin/python" -m pytest --quiet tests/python/test_hosts.py
