#!/usr/bin/env bash
# Installs what the package needs with all extras, and what else the arguments name to pip: packages.sh --group check.
# PySpark comes as source. pip unpacks its wheel as soon as it is packed: to compress it takes twenty seconds of a processor that
# the compiler needs.
set -euo pipefail
stored='--config-settings="--build-option=--compression=stored"'
requirements=$("$(dirname "$0")/requirements.sh" | sed "s/^pyspark.*/& $stored/")
pip install --requirement <(echo "$requirements") "$@"
