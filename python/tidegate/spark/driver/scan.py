"""Finds the files of a DataFrame that only scans Parquet files.

Such a DataFrame selects columns of the files and can apply simple filters. Its rows can be read
without Spark if each column's type in the files is the type that Spark would pass to Python. In all
other cases, a string states why the files cannot be read instead of the DataFrame.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from pyspark.sql.types import StructType

from tidegate.slices.files import File
from tidegate.slices.footers import Source
from tidegate.spark.driver.java import NOT_TOLD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc
    from pyspark.sql import DataFrame

Columns: TypeAlias = dict[str, pa.DataType]

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# Spark's names of the file systems that pyarrow calls otherwise.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}

# The types whose values Spark compares as pyarrow does.
_COMPARED = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

_COMPARISONS = {
    "EqualTo": "__eq__",
    "LessThan": "__lt__",
    "LessThanOrEqual": "__le__",
    "GreaterThan": "__gt__",
    "GreaterThanOrEqual": "__ge__",
}
_MIRRORED = {"__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__"}


def scanned(frame: DataFrame, name: str, sent: pa.Schema) -> Source | str:
    """Return a DataFrame's files, or the reason why the DataFrame is not read from its files.

    Args:
        frame: The DataFrame.
        name: The name of the argument, as shown in messages.
        sent: The columns that a call reads, in the types in which Spark would pass them to Python.
    """
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no other way
        return _scanned(frame, name, sent, plan)
    except _Unlike as error:
        return str(error)
    except NOT_TOLD:
        return f"{name}: Spark does not show where the rows of this DataFrame are stored"
    except (OSError, pa.ArrowException) as error:
        return f"{name}: pyarrow cannot open the files of this DataFrame ({error})"


class Condition(NamedTuple):
    """A test of one column."""

    column: str
    test: pc.Expression


class _Unlike(Exception):  # noqa: N818 - a reason, never an error for users
    """The rows cannot be read without Spark; the message states the reason."""


def _scanned(frame: DataFrame, name: str, sent: pa.Schema, plan: Any) -> Source:  # noqa: ANN401 - Java's
    filters: list[Condition] = []
    read: Columns = {}
    while (node := plan.nodeName()) in ("Project", "Filter", "SubqueryAlias", "View"):
        if node == "Project":
            _check_columns(name, plan.projectList())
        if node == "Filter":
            filters += _conditions(name, plan.condition(), read)
        plan = plan.children().apply(0)
    if node != "LogicalRelation":
        message = f"{name}: this DataFrame is not a plain scan of Parquet files, but contains the "
        raise _Unlike(message + f"step {node}")
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation" or (
        relation.fileFormat().getClass().getName() != _PARQUET
    ):
        message = f"{name}: this DataFrame does not read plain Parquet files"
        raise _Unlike(message)
    uris = _uris(frame, relation)
    if not uris:
        message = f"{name}: this DataFrame has no files"
        raise _Unlike(message)
    filesystem, paths = _places(name, uris)
    partitions = StructType.fromJson(json.loads(relation.partitionSchema().json()))
    kinds = {**read, **{field.name: field.type for field in sent}}
    folders = [(one.name, kinds.get(one.name, pa.string())) for one in partitions.fields]
    source = _source(name, filesystem, paths, uris, pa.schema(folders))
    _check_types(source, kinds)
    of_rows = [one.test for one in filters if one.column not in partitions.names]
    of_files = [one.test for one in filters if one.column in partitions.names]
    files = _matching(source.files, pa.schema(folders), of_files)
    where = reduce(and_, of_rows) if of_rows else None
    return Source(name, source.schema, files, where, [None] * len(files))


def _matching(
    files: Sequence[File], folders: pa.Schema, tests: Sequence[pc.Expression]
) -> Sequence[File]:
    """Return the files in folders whose partition values pass all tests."""
    if not tests:
        return files
    values = [ds.get_partition_keys(file.values) for file in files]
    columns = {name: [one.get(name) for one in values] for name in folders.names}
    table = pa.table(columns, folders).append_column("\x1fat", pa.array(range(len(files))))
    kept = table.filter(reduce(and_, tests))["\x1fat"].to_pylist()
    return [files[at] for at in kept]


def _uris(frame: DataFrame, relation: Any) -> list[str]:  # noqa: ANN401 - an object of Java
    """Return the addresses of all files, using one call to Java, as there may be thousands."""
    files = relation.location().inputFiles()
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - no other way
    text: str = jvm.org.apache.hadoop.util.StringUtils.join("\n", files)
    return text.split("\n") if text else []


def _places(name: str, uris: Sequence[str]) -> tuple[pafs.FileSystem, list[str]]:
    """Return the file system that contains all files, and the paths of the files."""
    scheme, _, _ = uris[0].partition(":")
    if scheme == "file":
        # Spark writes `file:/path` or `file:///path`.
        return pafs.LocalFileSystem(), [
            "/" + unquote(uri.partition(":")[2]).lstrip("/") for uri in uris
        ]
    known = _SCHEMES.get(scheme, scheme)
    try:
        filesystem, first = pafs.FileSystem.from_uri(known + uris[0].removeprefix(scheme))
    except (ValueError, OSError) as error:
        message = f"{name}: pyarrow cannot open {uris[0]} ({error})"
        raise _Unlike(message) from error
    root = unquote(known + uris[0].removeprefix(scheme)).removesuffix(first)
    return filesystem, [
        unquote(known + uri.removeprefix(scheme)).removeprefix(root) for uri in uris
    ]


def _source(
    name: str,
    filesystem: pafs.FileSystem,
    paths: Sequence[str],
    uris: Sequence[str],
    folders: pa.Schema,
) -> Source:
    """Return the input that consists of these files."""
    form = ds.ParquetFileFormat()
    stored = form.make_fragment(paths[0], filesystem).physical_schema.remove_metadata()
    values = [ds.scalar(True)] * len(paths)  # noqa: FBT003 - pyarrow's own
    if folders.names:
        hive = ds.partitioning(folders, flavor="hive")
        values = [hive.parse(path.rpartition("/")[0] + "/") for path in paths]
        stored = pa.schema([field for field in stored if field.name not in folders.names])
    infos = filesystem.get_file_info([*paths])
    files = [
        File(path, uri, filesystem, info.size, info.mtime_ns, value)
        for path, uri, info, value in zip(paths, uris, infos, values, strict=True)
    ]
    return Source(name, pa.schema([*stored, *folders]), files, None, [None] * len(files))


def _check_columns(name: str, columns: Any) -> None:  # noqa: ANN401 - objects of Java
    """Reject a projection that computes or renames a column."""
    for at in range(columns.size()):
        if columns.apply(at).getClass().getSimpleName() != "AttributeReference":
            message = f"{name}: this DataFrame computes or renames the column "
            raise _Unlike(message + f"`{columns.apply(at).name()}`")


def _check_types(source: Source, kinds: Columns) -> None:
    """Reject files in which a column's type differs from its type in Spark."""
    for name, wanted in kinds.items():
        at = source.schema.get_field_index(name)
        kind = None if at < 0 else source.schema.field(at).type
        if kind is None or _plain(kind) != wanted:
            found = "missing in the files" if kind is None else f"{kind} in the files"
            message = f"{source.name}: column `{name}` is {found}, but {wanted} in Spark"
            raise _Unlike(message)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the corresponding type with 32-bit offsets."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _conditions(name: str, condition: Any, read: Columns) -> Iterator[Condition]:  # noqa: ANN401 - Java's
    """Yield the parts of a Spark condition. A row does not pass if any part is null.

    The columns that the condition compares are added to `read`, with their types.
    """
    kind = _kind(condition)
    parts = [condition.children().apply(at) for at in range(condition.children().size())]
    if kind == "And":
        for part in parts:
            yield from _conditions(name, part, read)
        return
    if kind == "IsNotNull" and _kind(parts[0]) == "AttributeReference":
        yield Condition(parts[0].name(), ds.field(parts[0].name()).is_valid())
        return
    if kind in _COMPARISONS:
        left, right = parts
        comparison = _COMPARISONS[kind]
        if _kind(left) == "Literal":
            left, right, comparison = right, left, _MIRRORED.get(comparison, comparison)
        if (_kind(left), _kind(right)) == ("AttributeReference", "Literal"):
            value = _value(right)
            if value is not None:
                read[left.name()] = value.type
                yield Condition(left.name(), getattr(ds.field(left.name()), comparison)(value))
                return
    message = f"{name}: this DataFrame has the filter {condition.sql()}, which only Spark can apply"
    raise _Unlike(message)


def _kind(node: Any) -> str:  # noqa: ANN401 - an object of Java
    return str(node.getClass().getSimpleName())


def _value(literal: Any) -> pa.Scalar | None:  # noqa: ANN401 - an object of Java
    """Return a literal's value, or None if Spark and pyarrow compare its type differently."""
    kind, value = _COMPARED.get(literal.dataType().typeName()), literal.value()
    if kind is None or value is None:
        return None
    if kind == pa.string():
        return pa.scalar(value if isinstance(value, str) else value.toString())
    stored = pa.int32() if kind == pa.date32() else pa.int64()
    return pa.scalar(int(value), stored).cast(kind)
