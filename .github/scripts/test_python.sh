#!/usr/bin/env bash
# Every Python test, on the installed package. Arguments go to pytest: test_python.sh -k cli.
set -euo pipefail
python -m pytest --quiet "$@"
