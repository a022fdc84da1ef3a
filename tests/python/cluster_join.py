"""A pipeline for `test_spark_cluster.py`: joins on the cluster it is given, one executor killed.

    python cluster_join.py spark://HOST:PORT MARKER PARALLELISM

The first task that has results kills the executor that runs it, if nobody has made the file MARKER
yet. Prints the number of pairs, the number of different ones, and the sum of their numbers.
"""

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
from spark_session import JVM

ROWS = 20_000


def start(master: str) -> SparkSession:
    """A small session on a cluster."""
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", JVM)
        .config("spark.executor.extraJavaOptions", JVM)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def kill_executor() -> None:
    """Kill the executor that runs the task."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    executor = int(daemon.rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)


def main(master: str, marker: str, parallelism: str) -> None:
    session = start(master)
    rows = session.range(ROWS, numPartitions=4).selectExpr("id", "id % 7 as key", "id * 3 as ts")

    def deadly(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            Path(marker).touch(exist_ok=False)
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
    sys.stdout.write(" ".join(map(str, counts)))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
