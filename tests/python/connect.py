"""An application for `test_spark_connect.py`: queries of a Spark Connect session.

    python connect.py FOLDER

FOLDER contains `left.parquet` and `right.parquet`. The rows of a query are written to
`QUERY.parquet`, and the text of an error to `QUERY.txt`.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import campaign
import spark_session
import tidegate.spark
from tidegate import agg
from tidegate.spark.plan.host import Host, host_of

NEAR: dict[str, Any] = {"on": "ts", "by": "k", "lower": -5, "upper": 5}
AGGS = {"n": agg.count(), "sum": agg.sum("b")}
WINDOWS: dict[str, Any] = {"on": "ts", "size": 10, "by": "k", "aggs": {"n": agg.count()}}

# By name, the function and its arguments.
JOINS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("interval_join", {**NEAR, "how": "full"}),
    "bins": ("interval_join", {**NEAR, "parallelism": "bins"}),
    "broadcast": ("interval_join", {**NEAR, "how": "left", "parallelism": "broadcast"}),
}
if campaign.ALL:
    # Divided in the same way as the first query.
    JOINS["aggs"] = ("interval_join", {**NEAR, "aggs": AGGS})
    JOINS["band"] = ("band_join", {"on": "ts", "within": 3, "how": "anti", "by": "k"})


def main(name: str) -> None:
    folder = Path(name)
    os.environ["PYSPARK_PYTHON"] = spark_session.python()
    session = (
        SparkSession.builder.remote("local[2]")
        .config("spark.driver.extraJavaOptions", spark_session.JVM)
        .config(map=spark_session.SHORT)
        .getOrCreate()
    )
    left, right = (
        session.read.parquet(str(folder / f"{side}.parquet")) for side in ("left", "right")
    )
    assert "connect" in type(left).__module__
    assert host_of(session) == Host(places_rows=hasattr(DataFrame, "repartitionById"))
    for query, (join, arguments) in JOINS.items():
        found = getattr(tidegate.spark, join)(left, right, **arguments)
        pq.write_table(found.toArrow(), folder / f"{query}.parquet")
    paths = [str(folder / f"{side}.parquet") for side in ("left", "right")]
    found = tidegate.spark.interval_join(*paths, **NEAR, how="full", partitions=3)
    pq.write_table(found.toArrow(), folder / "files.parquet")
    sink = str(folder / "sink")
    tidegate.spark.interval_join(*paths, **NEAR, how="full", partitions=3, sink=sink)
    tidegate.Index(pq.read_table(paths[1]), on="ts", by="k").save(folder / "right.index")
    index = tidegate.open_index(folder / "right.index")
    found = tidegate.spark.interval_join(left, index, **NEAR, how="left")
    pq.write_table(found.toArrow(), folder / "index.parquet")
    windows = tidegate.spark.aggregate(left, **WINDOWS).toArrow()
    pq.write_table(windows, folder / "aggregate.parquet")
    (folder / "landed").mkdir()
    pq.write_table(pq.read_table(folder / "left.parquet"), folder / "landed" / "0.parquet")
    stream = session.readStream.schema(left.schema).parquet(str(folder / "landed"))
    found = tidegate.spark.interval_join(stream, right, **NEAR, parallelism="broadcast")
    writer = found.writeStream.trigger(availableNow=True).format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.start(str(folder / "found")).awaitTermination()
    pq.write_table(session.read.parquet(str(folder / "found")).toArrow(), folder / "stream.parquet")
    try:
        tidegate.spark.interval_join(stream, right, **NEAR)
    except tidegate.TidegateError as error:
        (folder / "refused.txt").write_text(str(error))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
