#!/usr/bin/env bash
# Installs all dependencies of the package with all extras, and any further arguments for pip:
# packages.sh --group check. PySpark is published only as a source package. pip unpacks its wheel
# right after building it, so the wheel is not compressed. This saves 20 seconds of processor time
# while the compiler is running.
set -euo pipefail
stored='--config-settings="--build-option=--compression=stored"'
requirements=$("$(dirname "$0")/requirements.sh" | sed "s/^pyspark.*/& $stored/")
pip install --requirement <(echo "$requirements") "$@"
