#!/usr/bin/env bash
# Installs a wheel or source package in a separate environment and runs the example in the package's
# docstring.
set -euo pipefail

package=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python -m venv "$folder"
if [[ -d $folder/Scripts ]]; then bin=$folder/Scripts; else bin=$folder/bin; fi
install=("$bin/python" -m pip install --quiet)
if [[ $package == *.whl ]]; then
    "$bin/python" .github/scripts/check_wheel.py "$package"
    # Installing a wheel and its dependencies requires no compiler.
    install+=(--only-binary :all:)
fi
"${install[@]}" "${package}[cli]"
"$bin/python" -c '
import doctest, tidegate
runner = doctest.DocTestRunner()
# The examples of functions and classes need data that only the tests create.
for example in doctest.DocTestFinder(recurse=False).find(tidegate):
    runner.run(example)
failed, tried = runner.summarize()
assert tried and not failed, (failed, tried)
'
"$bin/tidegate" doctor
