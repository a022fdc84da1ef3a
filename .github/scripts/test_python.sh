#!/usr/bin/env bash
# Every Python test, on the installed package. Arguments go to pytest: test_python.sh -k cli.
#
# Four processes, each with whole files: while some wait for Spark, for a signal or for a process, another computes. Files that
# share a session of Spark, which takes some gigabytes, go to one process: tests/python/conftest.py deals them.
set -euo pipefail
# Where the environment forbids compiled files, each of the processes that tests start compiles the package anew.
export PYTHONDONTWRITEBYTECODE=
python -m pytest --quiet --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 25 "$@"
