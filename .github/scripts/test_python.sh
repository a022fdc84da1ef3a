#!/usr/bin/env bash
# Runs every Python test on the installed package. Arguments are passed to pytest: test_python.sh -k
# cli.
#
# The tests run in four processes, and each process runs whole files. While some processes wait for
# Spark, a signal or another process, others can compute. Files that share a Spark session, which
# takes several gigabytes, run in one process: tests/python/conftest.py assigns them.
set -euo pipefail
# If the environment disabled bytecode files, each process that a test starts would have to compile
# the package again.
export PYTHONDONTWRITEBYTECODE=
python -m pytest --quiet --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 25 "$@"
