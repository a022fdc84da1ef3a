"""An application for `test_spark_cluster.py`: what the tests ask for, on one cluster.

    python cluster.py FOLDER PARALLELISM,... QUERY,...

FOLDER has `example.py`, which makes the session, and for each of the queries, of
`streaming_query.QUERIES`, a folder of `streaming`. Every part leaves a file or folder there.
"""

import os
import runpy
import signal
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import streaming
import streaming_query
import tidegate.spark
from spark_session import settings

ROWS = 20_000

# Of the executors of a stream.
KILLS = 2 if campaign.ALL else 1


def kill_executor() -> None:
    """Kill the executor that runs the task."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    executor = int(daemon.rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)


def markers(folder: Path) -> list[Path]:
    """A file for each executor that was killed."""
    return [*folder.glob("killed-*")]


def join(session: SparkSession, folder: Path, parallelism: str) -> None:
    """Join, while the first task that has results kills its executor.

    Leaves the number of pairs, the number of different ones, and the sum of their numbers.
    """
    rows = session.range(ROWS, numPartitions=4).selectExpr("id", "id % 7 as key", "id * 3 as ts")
    marker = folder / f"killed-{parallelism}"

    def deadly(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return batch
        kill_executor()
        return batch

    found = tidegate.spark.interval_join(
        rows,
        rows,
        on="ts",
        by="key",
        lower=-50,
        upper=50,
        columns=["id", "id_right"],
        parallelism=parallelism,
        then=deadly,
        then_schema="id bigint, id_right bigint",
    )
    pair = F.col("id") * ROWS + F.col("id_right")
    counts = found.agg(F.count("*"), F.count_distinct(pair), F.sum(pair)).first()
    (folder / parallelism).write_text(" ".join(map(str, counts)))


def stream(session: SparkSession, folder: Path, query: str) -> None:
    """Run a query on `folder`, while tasks of the first micro-batches kill their executors.

    Of each, one that has results does, and leaves a `killed-BATCH`. All rows are in `rows.parquet`.
    """

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        marker = folder / f"killed-{context.getLocalProperty('streaming.sql.batchId')}"
        for batch in batches:
            if batch.num_rows and not marker.exists() and len(markers(folder)) < KILLS:
                marker.touch()
                kill_executor()
            yield batch

    with settings(session, **streaming.STORE):
        found = streaming_query.QUERIES[query](session, folder)
        writer = found.mapInArrow(killed, found.schema).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).format("parquet")
        writer.start(str(folder / "found")).awaitTermination()
    # The sink's own log tells which files count.
    pq.write_table(session.read.parquet(str(folder / "found")).toArrow(), folder / "rows.parquet")


def main(name: str, parallelisms: str, queries: str) -> None:
    folder = Path(name)
    with (folder / "example.txt").open("w") as shown, redirect_stdout(shown):
        runpy.run_path(str(folder / "example.py"))
    session = SparkSession.active()
    session.sparkContext.setLogLevel("OFF")
    for parallelism in parallelisms.split(","):
        join(session, folder, parallelism)
    for query in queries.split(","):
        stream(session, folder / query, query)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
