"""The rows of a table that Spark reads from Parquet files, by the footers of a few of them.

Spark knows the bytes of files, and how large it takes a row to be. Compressed files have many times
as many rows as that tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Files whose footers are read: each costs a request or two to where they are stored.
_LOOKED_AT = 3

# Nodes of a plan that have no more rows than what they read.
_NARROW = ("Project", "Filter", "SubqueryAlias", "View")


def rows_of(frame: DataFrame) -> float | None:
    """About how many rows the files have, before any filter; None if they are not all Parquet."""
    try:
        relation = _read(frame._jdf.queryExecution().optimizedPlan())  # noqa: SLF001 - no other way
        if relation is None:
            return None
        files = frame._jdf.inputFiles()  # noqa: SLF001 - a list in Python would fetch every name
        count = len(files)
        if count == 0:
            return 0.0
        last = max(1, min(count, _LOOKED_AT) - 1)
        chosen = sorted({at * (count - 1) // last for at in range(min(count, _LOOKED_AT))})
        rows, size = 0, 0
        for at in chosen:
            if not files[at].endswith(".parquet"):
                return None
            of_file, of_bytes = _footer(frame, files[at])
            rows, size = rows + of_file, size + of_bytes
        return rows * int(str(relation.stats().sizeInBytes())) / max(1, size)
    except Py4JError:
        # Spark Connect, a file that is gone, or a vendor's reader: the bytes must do.
        return None


def _read(plan: Any) -> Any:  # noqa: ANN401 - an object of Java
    """The relation of files that a plan reads, if it does nothing else that makes or joins rows."""
    while plan.nodeName() in _NARROW:
        plan = plan.children().apply(0)
    return plan if plan.nodeName() == "LogicalRelation" else None


def _footer(frame: DataFrame, name: str) -> tuple[int, int]:
    """Rows and bytes of a file."""
    session = frame.sparkSession
    jvm: Any = session._jvm  # noqa: SLF001 - no other way
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
    configuration = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - as above
    hadoop = jvm.org.apache.parquet.hadoop
    file = hadoop.util.HadoopInputFile.fromPath(path, configuration)
    reader = hadoop.ParquetFileReader.open(file)
    try:
        return int(reader.getRecordCount()), int(file.getLength())
    finally:
        reader.close()
