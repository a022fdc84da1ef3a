#!/usr/bin/env bash
# Looks up known weaknesses of all crates and Python packages that tidegate needs, and the licences of the crates (deny.toml).
# Needs cargo-deny: cargo install --locked cargo-deny.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python -m venv "$folder"
"$folder/bin/python" -m pip install --quiet pip-audit
"$folder/bin/python" > "$folder/requirements.txt" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
print(*project["dependencies"], *sum(project["optional-dependencies"].values(), []), sep="\n")
'
"$folder/bin/pip-audit" --strict --progress-spinner off --requirement "$folder/requirements.txt"

cargo deny --locked check --hide-inclusion-graph
