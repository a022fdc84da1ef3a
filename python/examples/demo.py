"""Runs all examples with real data in one Spark session, for `make demo`.

    python python/examples/demo.py

The script writes three outputs to the current folder: the plot `flights_weather.png`, a `live`
folder with the page, and Spark's log.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import around_each_row
import flights_weather
import live_orders

# The seconds of exchange data, and the pause between files in seconds. Each file covers three
# seconds.
SECONDS, PACE = 15, 0.3


def main() -> None:
    """Run all examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("flights_weather.png"))
    picture = parser.parse_args().picture
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    with flights_weather.session() as spark:
        flights_weather.run(spark, picture)
        around_each_row.main()
        print()
        live_orders.run(spark, Path("live"), SECONDS, PACE)


if __name__ == "__main__":
    main()
