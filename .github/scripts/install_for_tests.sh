#!/usr/bin/env bash
# Installs the package as the tests take it into the current Python: install_for_tests.sh EXTRAS GROUP. The profile `dev` has
# debug assertions and checks overflow.
set -euo pipefail
python -m pip install --quiet --upgrade 'pip>=25.1'
python -m pip install --quiet ".[$1]" --group "$2" --config-settings maturin.build-args='--profile dev'
