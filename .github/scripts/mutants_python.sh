#!/usr/bin/env bash
# Makes one change at a time to a Python file of the package, and lists the changes that no test
# detects: mutants_python.sh spark/layout/layout.py tests/python/test_spark_layout.py ... Listing
# more tests can only detect more changes. Installs mutmut, and works in a copy in target/mutants.
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
