"""A process that goes on with a streaming query, from a folder of `streaming` to Parquet files.

Its arguments are the folder and the query's name in `QUERIES`; the process ends once the input is
used up.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import campaign
import streaming
from spark_session import settings, start
from tidegate import agg

HOW = "full"
AGGS = {"n": agg.count(), "sum": agg.sum("v"), "last": agg.last("v")}

QUERIES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "interval_join": lambda spark, folder: streaming.joined(spark, folder, how=HOW),
    "aggregate": lambda spark, folder: streaming.aggregated(spark, folder, aggs=AGGS),
}


def tried(name: str) -> list[str]:
    """The queries to try: all in a campaign, or else one, to save time."""
    return list(QUERIES) if campaign.ALL else [name]


def run(spark: SparkSession, folder: Path, name: str) -> None:
    """Go on with the query of this name until the input is used up."""
    with settings(spark, **streaming.STORE):
        query = (
            QUERIES[name](spark, folder)
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .format("parquet")
            .start(str(folder / "found"))
        )
        query.awaitTermination()


if __name__ == "__main__":
    run(start(), Path(sys.argv[1]), sys.argv[2])
