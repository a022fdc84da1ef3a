#!/usr/bin/env bash
# Aggregates the flights before each flight of 2013 and joins them with the weather, in Spark; the same kinds of questions
# without Spark; then joins orders and executions as they land. The picture, the folder `live` and Spark's logs land in the
# current folder.
set -euo pipefail
python python/examples/flights_weather.py "$@"
python python/examples/around_each_row.py
python python/examples/live_orders.py --pace 0.3
