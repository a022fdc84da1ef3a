#!/usr/bin/env bash
# Builds the site in site/, from the pages of docs/ and what they lead to. It needs no network.
set -euo pipefail
python .github/scripts/site.py target/manual
# A link or an anchor that leads nowhere ends the build.
zensical build --clean --strict
