"""A pipeline for `test_spark_cluster.py`: a streaming query whose executors are killed.

    python cluster_stream.py spark://HOST:PORT FOLDER NAME

FOLDER is one of `streaming`, NAME one of `streaming_query.QUERIES`. In the first micro-batches that
have results, a task that has some kills the executor that runs it, and leaves a `killed-BATCH`. A
kill costs some half a minute, so a default run has one.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

import campaign
import cluster_join
import streaming
import streaming_query
from spark_session import settings

KILLS = 2 if campaign.ALL else 1


def markers(folder: Path) -> list[Path]:
    """What is left of the executors."""
    return [*folder.glob("killed-*")]


def main(master: str, name: str, query: str) -> None:
    folder = Path(name)
    session = cluster_join.start(master)
    # Executors cannot import it.
    cloudpickle.register_pickle_by_value(cluster_join)

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        marker = folder / f"killed-{context.getLocalProperty('streaming.sql.batchId')}"
        for batch in batches:
            if batch.num_rows and not marker.exists() and len(markers(folder)) < KILLS:
                marker.touch()
                cluster_join.kill_executor()
            yield batch

    with settings(session, **streaming.STORE):
        found = streaming_query.QUERIES[query](session, folder)
        writer = found.mapInArrow(killed, found.schema).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).format("parquet")
        writer.start(str(folder / "found")).awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
