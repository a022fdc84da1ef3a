#!/usr/bin/env bash
# Builds the wheel and runs the core Python tests against it, in an environment with the lowest
# versions that pyproject.toml allows. A separate job runs the Spark tests with the oldest PySpark.
set -euo pipefail

scripts=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python "$scripts/lowest.py" >"$folder/lowest.txt"
"$scripts/environment.sh" python "$folder/lowest"
export VIRTUAL_ENV=$folder/lowest PATH=$folder/lowest/bin:$PATH
python -m pip wheel --quiet --no-deps --wheel-dir "$folder" --config-settings maturin.build-args='--profile dev' .
# A single call lets pip reject versions that conflict with the wheel.
python -m pip install --quiet --requirement "$folder/lowest.txt" "$folder"/*.whl
export CAMPAIGN=${CAMPAIGN:-0.2}
examples=tests/python/test_docstrings.py::test_the_example_runs
# Two pages show output from the latest version of pandas.
"$scripts/test_python.sh" -m "not slow" --ignore-glob='*test_spark*' \
    --deselect "${examples}[docs/how-to.md:examples]" --deselect "${examples}[docs/ten-minutes.md:examples]" "$@"
