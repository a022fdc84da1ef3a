#!/usr/bin/env bash
# Changes a Python file of the package in one place at a time, and lists the changes that no test notices:
# mutants_python.sh spark/layout/layout.py tests/python/test_spark_layout.py ...
# More tests can only find more. Needs mutmut, which it installs; works in a copy, under target/mutants.
set -euo pipefail

if [[ $# -lt 2 || ! -f python/tidegate/$1 ]]; then
    echo "usage: $0 FILE TESTS..., FILE being one of python/tidegate, as in spark/layout/layout.py" >&2
    exit 2
fi
pip install --quiet mutmut
copy=target/mutants/$(basename "$1" .py)
rm -rf "$copy"
mkdir -p "$copy/src"
cp -r python/tidegate "$copy/src/"
cp -r tests pyproject.toml "$copy/"
cd "$copy"
cat > setup.cfg <<CONFIG
[mutmut]
source_paths = src
only_mutate = src/tidegate/$1
pytest_add_cli_args =
    -n0
    -pno:cacheprovider
pytest_add_cli_args_test_selection =
$(printf '    %s\n' "${@:2}")
CONFIG
mutmut run --max-children "${JOBS:-1}"
mutmut results
