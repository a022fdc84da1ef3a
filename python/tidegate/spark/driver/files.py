"""The rows of a table that Spark reads from Parquet files, by the footers of a few of them.

Spark knows the bytes of files, and how large it takes a row to be. Compressed files have many more
rows than these two tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Files whose footers are read: each costs a request or two to where they are stored.
_LOOKED_AT = 3

# Spark's number of bytes where it knows none.
_UNKNOWN = 2**62

# Nodes of a plan that have the rows of what they read, or, for filters, no more.
_SAME = ("Project", "SubqueryAlias", "View")
_NARROW = (*_SAME, "Filter")


class Rows(NamedTuple):
    """The number of rows of files. It is exact where all footers tell it, else an estimate."""

    number: float
    exact: bool


def rows_of(frame: DataFrame, *, filtered: bool = True) -> Rows | None:
    """How many rows the files have, before any filter; None if some are not Parquet.

    It is None, too, where a file cannot be read: Spark says why, if it cannot read it either. And
    it is None of rows that are `filtered`, if that is not allowed.
    """
    nodes = _NARROW if filtered else _SAME
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no other way
        relation = _read(plan, nodes)
        return None if relation is None else _rows_read(frame, relation)
    except (Py4JError, PySparkException, TypeError):
        # A file that is gone, one that is encrypted, or a vendor's reader: the bytes must do.
        return None


def _rows_read(frame: DataFrame, relation: Any) -> Rows | None:  # noqa: ANN401 - an object of Java
    """The rows of the files of a relation."""
    counted = relation.stats().rowCount()
    if counted.isDefined():
        # As of when somebody counted them.
        return Rows(float(str(counted.get())), exact=False)
    files = frame._jdf.inputFiles()  # noqa: SLF001 - a list in Python would fetch every name
    count = len(files)
    if count == 0:
        return Rows(0.0, exact=True)
    last = max(1, min(count, _LOOKED_AT) - 1)
    chosen = [files[at] for at in sorted({at * (count - 1) // last for at in range(last + 1)})]
    # Not the bytes of `stats`, which a setting may multiply, or take from counted rows.
    total = int(relation.relation().location().sizeInBytes())
    if total >= _UNKNOWN or not all(name.endswith(".parquet") for name in chosen):
        return None
    rows, size = map(sum, zip(*(_footer(frame, relation, name) for name in chosen), strict=True))
    return Rows(rows * total / max(1, size), exact=len(chosen) == count and size == total)


def _read(plan: Any, nodes: tuple[str, ...]) -> Any:  # noqa: ANN401 - objects of Java
    """The relation of files that a plan reads, if it has no other nodes than these above it."""
    while plan.nodeName() in nodes:
        plan = plan.children().apply(0)
    return plan if plan.nodeName() == "LogicalRelation" else None


def _footer(frame: DataFrame, relation: Any, name: str) -> tuple[int, int]:  # noqa: ANN401 - Java's
    """Rows and bytes of a file, which is read with the options that the reader was given."""
    session = frame.sparkSession
    jvm: Any = session._jvm  # noqa: SLF001 - no other way
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
    state = session._jsparkSession.sessionState()  # noqa: SLF001 - as above
    configuration = state.newHadoopConfWithOptions(relation.relation().options())
    hadoop = jvm.org.apache.parquet.hadoop
    file = hadoop.util.HadoopInputFile.fromPath(path, configuration)
    reader = hadoop.ParquetFileReader.open(file)
    try:
        return int(reader.getRecordCount()), int(file.getLength())
    finally:
        reader.close()
