#!/usr/bin/env bash
# Aggregates the flights before each flight of 2013 and joins flights with the weather, in Spark.
# Then answers similar questions without Spark, and joins orders and executions as they arrive. The
# picture, the folder `live` and Spark's log, `spark.log`, are written to the current folder.
set -euo pipefail
python python/examples/demo.py "$@"
