#!/usr/bin/env bash
# Builds the site in site/ from the pages in docs/ and the files they link to. It needs no network.
set -euo pipefail
python .github/scripts/site.py target/manual
# A broken link or anchor stops the build.
zensical build --clean --strict
