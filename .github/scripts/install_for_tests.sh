#!/usr/bin/env bash
# Installs the package for tests into the current Python: install_for_tests.sh EXTRAS GROUP. The
# profile `dev` enables debug assertions and overflow checks.
set -euo pipefail
python -m pip install --quiet --upgrade 'pip>=25.1'
python -m pip install --quiet ".[$1]" --group "$2" --constraint .github/requirements-dev.txt --config-settings maturin.build-args='--profile dev'
