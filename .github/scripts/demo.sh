#!/usr/bin/env bash
# Joins the flights of 2013 with the weather in Spark; the picture lands in the current folder.
set -euo pipefail
python python/examples/flights_weather.py "$@"
