"""Estimates the number of rows in Parquet files from the footers of a few files.

Spark knows only the size of the files and an assumed size per row. Compressed files contain many
more rows than these two numbers suggest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.spark.driver.java import NOT_TOLD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The number of files whose footers are read. Each footer requires one or two requests to the
# storage.
_LOOKED_AT = 3

# Spark reports at least this many bytes if it does not know the size.
_UNKNOWN = 2**62

# Plan nodes that return all rows of their input. A filter may return fewer.
_SAME = ("Project", "SubqueryAlias", "View")
_NARROW = (*_SAME, "Filter")

# The errors if a file is missing or encrypted, or if the reader is a vendor's. The caller then
# relies on the size in bytes.
_UNREAD: tuple[type[Exception], ...] = (*NOT_TOLD, TypeError)


class Rows(NamedTuple):
    """The number of rows in files: exact if all footers were read, otherwise an estimate."""

    number: float
    exact: bool


def rows_of(frame: DataFrame, *, filtered: bool = True) -> Rows | None:
    """Return the number of rows in the files before any filter, or None if a file is not Parquet.

    Also returns None if a file cannot be read. If Spark cannot read the file either, Spark reports
    the reason. A plan with a filter is accepted only if `filtered` is true.
    """
    nodes = _NARROW if filtered else _SAME
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no other way
        relation = _read(plan, nodes)
        return None if relation is None else _rows_read(frame, relation)
    except _UNREAD:
        return None


def _rows_read(frame: DataFrame, relation: Any) -> Rows | None:  # noqa: ANN401 - an object of Java
    """Return the number of rows in a relation's files."""
    counted = relation.stats().rowCount()
    if counted.isDefined():
        # The count may be out of date.
        return Rows(float(str(counted.get())), exact=False)
    files = frame._jdf.inputFiles()  # noqa: SLF001 - a list in Python would fetch every name
    count = len(files)
    if count == 0:
        return Rows(0.0, exact=True)
    last = max(1, min(count, _LOOKED_AT) - 1)
    chosen = [files[at] for at in sorted({at * (count - 1) // last for at in range(last + 1)})]
    # The bytes in `stats` may be multiplied by a setting, or derived from counted rows.
    total = int(relation.relation().location().sizeInBytes())
    if total >= _UNKNOWN or not all(name.endswith(".parquet") for name in chosen):
        return None
    rows, size = map(sum, zip(*(_footer(frame, relation, name) for name in chosen), strict=True))
    return Rows(rows * total / max(1, size), exact=len(chosen) == count and size == total)


def _read(plan: Any, nodes: tuple[str, ...]) -> Any:  # noqa: ANN401 - objects of Java
    """Return the file relation that a plan reads, or None if the plan has other nodes above it."""
    while plan.nodeName() in nodes:
        plan = plan.children().apply(0)
    return plan if plan.nodeName() == "LogicalRelation" else None


def _footer(frame: DataFrame, relation: Any, name: str) -> tuple[int, int]:  # noqa: ANN401 - Java's
    """Return the number of rows and bytes in a file, using the reader's options."""
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
