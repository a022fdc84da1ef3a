"""A pipeline for `test_spark_cluster.py`: a streaming query whose executors are killed.

    python cluster_stream.py spark://HOST:PORT FOLDER NAME

FOLDER is one of `streaming`, NAME one of `streaming_query.QUERIES`. In each of some micro-batches,
the first task that has results kills the executor that runs it, and leaves a file `killed-BATCH`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

import streaming
import streaming_query
from cluster_join import kill_executor, start
from spark_session import settings

DEADLY = (2, 4)


def main(master: str, name: str, query: str) -> None:
    folder = Path(name)
    session = start(master)
    deadly = [folder / f"killed-{batch}" for batch in DEADLY]

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        marker = folder / f"killed-{context.getLocalProperty('streaming.sql.batchId')}"
        for batch in batches:
            if batch.num_rows and marker in deadly and not marker.exists():
                marker.touch()
                kill_executor()
            yield batch

    with settings(session, **streaming.STORE):
        found = streaming_query.QUERIES[query](session, folder)
        writer = found.mapInArrow(killed, found.schema).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).format("parquet")
        writer.start(str(folder / "found")).awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
