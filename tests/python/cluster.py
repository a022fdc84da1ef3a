"""An application that runs the parts of the cluster tests on one cluster.

    python cluster.py FOLDER PARALLELISM,... QUERY,...

FOLDER contains `example.py`, which creates the session, and for each query, named in
`streaming_query.QUERIES`, a folder of `streaming`. Every part writes a file or folder there. Tasks
kill their executor. Tasks of the last query also kill the worker that runs the executor.
"""

import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import spark_session
import streaming
import streaming_query
import tidegate.spark
from spark_session import settings

ROOT = Path(__file__).parents[2]
ROWS = 8_000

# The number of a stream's executors that are killed. One of the two workers must survive.
KILLS = 2 if campaign.ALL else 1
KILLS_OF_LAST = 1


def manual(begin: str) -> str:
    """Return the first block of the manual's page that begins with this text."""
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{begin}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]


def ran(
    folder: Path, master: str, parallelisms: Sequence[str], queries: Sequence[str]
) -> Callable[[str], Path]:
    """Run the application on a cluster, and return the output folder of a part."""
    example = manual("python")
    assert '.master("local[*]")' in example
    (folder / "example.py").write_text(example.replace("local[*]", master))
    # The settings that an administrator makes for all programs.
    defaults = folder / "spark-defaults.conf"
    java = (f"spark.{side}.extraJavaOptions" for side in ("driver", "executor"))
    options = spark_session.SHORT | dict.fromkeys(java, spark_session.JVM)
    defaults.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    for query in queries:
        streaming.write(folder / query, 2, seed=5)
    run = subprocess.run(
        [sys.executable, __file__, folder, ",".join(parallelisms), ",".join(queries)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYSPARK_PYTHON": spark_session.python(),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {defaults} pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    def left(name: str) -> Path:
        assert (folder / name).exists(), run.stderr
        return folder / name

    return left


def kill(*, with_worker: bool) -> None:
    """Kill the executor that runs the task, and optionally the worker that runs the executor."""
    executor = _parent(os.getppid())
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    worker = _parent(executor)
    if with_worker:
        assert b"deploy.worker.Worker" in Path(f"/proc/{worker}/cmdline").read_bytes()
        os.kill(worker, signal.SIGKILL)
    os.kill(executor, signal.SIGKILL)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def markers(folder: Path) -> list[Path]:
    """Return the marker files of the killed executors."""
    return [*folder.glob("killed-*")]


def join(session: SparkSession, folder: Path, parallelism: str) -> None:
    """Join, while the first task with results kills its executor.

    Writes the number of pairs, the number of distinct pairs, and the sum of their numbers.
    """
    rows: DataFrame | str = session.range(ROWS, numPartitions=4).selectExpr(
        "id", "id % 7 as key", "id * 3 as ts"
    )
    if parallelism == "files":
        rows = str(folder / "rows.parquet")
        pq.write_table(table(), rows, row_group_size=ROWS // 20)
    marker = folder / f"killed-{parallelism}"

    def deadly(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return batch
        kill(with_worker=False)
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
        partitions=4 if parallelism == "files" else None,
        then=deadly,
        then_schema="id bigint, id_right bigint",
    )
    pair = F.col("id") * ROWS + F.col("id_right")
    counts = found.agg(F.count("*"), F.count_distinct(pair), F.sum(pair)).first()
    (folder / parallelism).write_text(" ".join(map(str, counts)))


def table() -> pa.Table:
    """Return the rows that `join` reads."""
    ids = np.arange(ROWS)
    return pa.table({"id": ids, "key": ids % 7, "ts": ids * 3})


def expected() -> list[int]:
    """Return the numbers that `join` would write for the native join."""
    rows = table()
    pairs = tidegate.interval_join(rows, rows, on="ts", by="key", lower=-50, upper=50)
    numbers = pairs["id"].to_numpy() * ROWS + pairs["id_right"].to_numpy()
    return [len(numbers), len(np.unique(numbers)), int(numbers.sum())]


def stream(session: SparkSession, folder: Path, query: str, *, is_last: bool) -> None:
    """Run a query on `folder`, while tasks of the first micro-batches kill their executors.

    In each of these micro-batches, a task with results kills its executor and leaves the file
    `killed-BATCH`. All result rows are written to `rows.parquet`.
    """
    kills = KILLS_OF_LAST if is_last else KILLS

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        marker = folder / f"killed-{context.getLocalProperty('streaming.sql.batchId')}"
        for batch in batches:
            if batch.num_rows and not marker.exists() and len(markers(folder)) < kills:
                marker.touch()
                kill(with_worker=is_last)
            yield batch

    with settings(session, **streaming.STORE):
        found = streaming_query.QUERIES[query](session, folder)
        writer = found.mapInArrow(killed, found.schema).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).format("parquet")
        writer.start(str(folder / "found")).awaitTermination()
    # The sink's log lists the valid files.
    pq.write_table(session.read.parquet(str(folder / "found")).toArrow(), folder / "rows.parquet")


def main(name: str, parallelisms: str, queries: str) -> None:
    folder = Path(name)
    with (folder / "example.txt").open("w") as shown, redirect_stdout(shown):
        runpy.run_path(str(folder / "example.py"))
    session = SparkSession.active()
    session.sparkContext.setLogLevel("OFF")
    for parallelism in parallelisms.split(","):
        join(session, folder, parallelism)
    *others, last = queries.split(",")
    for query in others:
        stream(session, folder / query, query, is_last=False)
    stream(session, folder / last, last, is_last=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
