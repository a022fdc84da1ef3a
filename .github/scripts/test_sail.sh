#!/usr/bin/env bash
# Builds the wheel and runs the calls on tables on Sail, in an environment with pysail and
# pyspark-client, which does not go together with PySpark. Arguments are passed to pytest.
#
# Sail 0.7 accepts PySpark 3.5 to 4.2.
set -euo pipefail

scripts=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$scripts/environment.sh" python "$folder/sail"
install=("$folder/sail/bin/python" -m pip install --quiet)
# Sail has wheels for some platforms only, and its source package needs a compiler for an hour.
if ! "${install[@]}" --only-binary pysail 'pysail>=0.7.2,<0.8' 'pyspark-client<4.3'; then
    echo "skipped: pysail cannot be installed on this platform" >&2
    exit 0
fi
python -m pip wheel --quiet --no-deps --wheel-dir "$folder" --config-settings maturin.build-args='--profile dev' .
"${install[@]}" 'hypothesis>=6.100' 'pytest>=9' 'pytest-timeout>=2.3.1' "$folder"/*.whl
# Sail logs each request by default.
RUST_LOG=error "$folder/sail/bin/python" -m pytest --quiet --durations 10 tests/python/test_sail.py "$@"
