#!/usr/bin/env bash
# Aggregates the flights before each flight of 2013 and joins them with the weather, in Spark; the same kinds of questions
# without Spark; then joins orders and executions as they land. The picture, the folder `live`, and `spark.log` and
# `live.log` with notes of Spark land in the current folder.
set -euo pipefail
python python/examples/flights_weather.py "$@"
python python/examples/around_each_row.py
# Java, Spark and its workers note much; it matters where something fails.
python python/examples/live_orders.py --pace 0.3 2>live.log || { cat live.log >&2; exit 1; }
