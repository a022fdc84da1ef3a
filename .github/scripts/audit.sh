#!/usr/bin/env bash
# Checks all crates and Python packages that tidegate needs for known vulnerabilities, and checks
# the licences of the crates (deny.toml). Needs cargo-deny: cargo install --locked cargo-deny.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python -m venv "$folder"
"$folder/bin/python" -m pip install --quiet pip-audit
"$(dirname "$0")/requirements.sh" > "$folder/requirements.txt"
"$folder/bin/pip-audit" --strict --progress-spinner off --requirement "$folder/requirements.txt"

cargo deny --locked check --hide-inclusion-graph
