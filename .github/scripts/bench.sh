#!/usr/bin/env bash
# Runs a workload from benches/ against the systems in the dependency group `bench`: bench.sh 1
# --rows 1000000.
set -euo pipefail

if [[ ! -f benches/w${1:-}.py ]]; then
    echo "W: expected the number of a workload, as in make bench W=1, got '${1:-}'" >&2
    exit 2
fi
pip install --quiet --group bench
python "benches/w$1.py" "${@:2}"
