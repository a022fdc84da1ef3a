#!/usr/bin/env bash
# Aggregates the flights before each flight of 2013 and joins them with the weather, in Spark; asks the same kinds of
# questions without Spark; then joins orders and executions as they land. The picture, the folder `live`, and `spark.log`
# with notes of Spark land in the current folder.
set -euo pipefail
python python/examples/demo.py "$@"
