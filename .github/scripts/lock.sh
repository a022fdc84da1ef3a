#!/usr/bin/env bash
# Writes .github/requirements-dev.txt: the versions that the Makefile and the workflows install, for
# every supported Python and system. Versions that still fit are kept; lock.sh --upgrade replaces
# them by the newest ones. Needs uv: pip install uv.
set -euo pipefail
lock=.github/requirements-dev.txt
groups=(build check docs test demo)
uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --all-extras \
    "${groups[@]/#/--group=}" --output-file "$lock" "$@" pyproject.toml
versions=$(<"$lock")
printf '# Written by .github/scripts/lock.sh.\n%s\n' "$versions" > "$lock"
