"""The archive of Spark's classes for Java, from which the sessions of the tests take them.

    python tests/python/spark_archive.py

A Java that has the archive neither unpacks nor verifies the classes in it: a session takes 8 s of
processor time until its first query is done, instead of 19. Java writes it as it ends, here after a
join of tables and one of streams.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

import spark_session
import streaming
import streaming_query
import tidegate.spark

# Seconds that Java may take to end.
PATIENCE = 120


def main() -> None:
    """Run the joins, and have their classes written."""
    with TemporaryDirectory(dir=sys.prefix) as folder:
        made = Path(folder, spark_session.ARCHIVE.name)
        spark_session.JVM += f' "-XX:ArchiveClassesAtExit={made}"'
        session = spark_session.start()
        rows = session.createDataFrame(pd.DataFrame({"ts": [1, 2], "k": [0, 0]}))
        rows.write.parquet(str(Path(folder, "rows")))
        rows = session.read.parquet(str(Path(folder, "rows")))
        tidegate.spark.interval_join(rows, rows, on="ts", by="k", lower=-1, upper=0).collect()
        landed = Path(folder, "landed")
        landed.mkdir()
        streaming.write(landed, 1, seed=1)
        streaming_query.run(session, landed, "interval_join")
        java: Any = session.sparkContext._gateway.proc
        session.stop()
        # By this PySpark tells Java to end.
        java.stdin.close()
        java.wait(PATIENCE)
        if made.is_file():
            made.replace(spark_session.ARCHIVE)
        else:
            sys.stderr.write("this Java makes no archive of classes: tests take longer\n")


if __name__ == "__main__":
    spark_session.ARCHIVE.unlink(missing_ok=True)
    main()
