#!/usr/bin/env bash
# Joins the flights of 2013 with the weather in Spark, aggregates what happened before each flight and trade, then joins
# orders and executions as they land; the picture and the folder `live` land in the current folder.
set -euo pipefail
python python/examples/flights_weather.py "$@"
python python/examples/around_each_row.py
python python/examples/live_orders.py --pace 0.3
