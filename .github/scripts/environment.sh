#!/usr/bin/env bash
# Creates a Python environment with a pip that supports dependency groups: environment.sh PYTHON
# FOLDER.
set -euo pipefail

python=$1
folder=$2

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$python is not Python 3.11 or later; name one that is: make PYTHON=python3.11 ..." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "$python cannot make environments; on Debian: apt install python3-venv" >&2
    exit 1
fi
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
