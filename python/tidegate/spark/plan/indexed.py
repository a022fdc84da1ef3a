"""The plan of a join of a DataFrame with an index: its arguments, and the columns that are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

import tidegate
from tidegate.slices.indexed import IndexFile, check_rows
from tidegate.spark.plan.checks import (
    check_asked,
    check_columns,
    check_division,
    check_late_as,
    check_width,
    empty,
)
from tidegate.spark.plan.join import origins_of, widened
from tidegate.spark.plan.streams import check_engine
from tidegate.spark.query.files import struct_of
from tidegate.spark.query.input import check_frames, check_keys
from tidegate.spark.query.schema import aggregate_fields, arrow, spark_schema, told_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.spark.query.query import SparkQuery
    from tidegate.types import Length


@dataclass(frozen=True)
class IndexPlan:
    """A join of a DataFrame with an index, with checked arguments."""

    left: DataFrame
    file: IndexFile
    index: tidegate.Index
    query: JoinQuery
    sent: tuple[str, ...]
    """The left columns that are sent to Python."""

    columns: tuple[str, ...]
    """The result columns, by their names in the native result."""

    result: StructType
    schema: pa.Schema
    """The types in which Spark receives the result columns."""

    partitions: int | None

    @classmethod
    def of(  # noqa: PLR0913 - the query, and the arguments of Spark
        cls,
        left: DataFrame,
        index: tidegate.Index,
        query: SparkQuery,
        *,
        columns: Sequence[str] | None = None,
        partitions: int | None = None,
        parallelism: str = "auto",
        late_as: str | None = None,
        max_width: Length | None = None,
    ) -> IndexPlan:
        """Check the arguments of a join."""
        check_frames((left,), ("left",))
        check_columns(columns)
        check_late_as(late_as, "a join with an index", streams=False)
        check_width(max_width, streams=False)
        check_division(partitions, parallelism, (parallelism,), keyed=True)
        if parallelism != "auto":
            message = f"parallelism {parallelism!r} divides the rows on both sides, but the right "
            message += "side is an index, which each Python worker maps; leave it out"
            raise tidegate.TidegateError(message)
        session = left.sparkSession
        if left.isStreaming:
            check_engine(session)
        file, table = IndexFile.of(index), empty(left, "left")
        asked = None if columns is None else [*columns]
        native = query.plan(table, index, asked)
        check_asked(native.schema)
        check_keys(left, [name for name, _ in native.keys], "left")
        check_rows(query.native, index, native)
        # In the native call, a right column needs no suffix if the left column with the same name
        # is not sent.
        pruned = query.plan(table.select(native.left_columns), index)
        name_of = {origin: name for name, origin in origins_of(pruned).items()}
        names = [*native.schema.names]
        origins = origins_of(native)
        if not query.aggs and not query.has_lookups:
            names = [name_of[origin] for origin in origins.values()]
        result, schema = _result(left, index, query, native)
        return cls(
            left=left,
            file=file,
            index=index,
            query=query.native.replace(columns=[*origins] if query.aggs else names),
            sent=tuple(native.left_columns),
            columns=tuple(names),
            result=result,
            schema=schema,
            partitions=partitions,
        )


def _result(
    left: DataFrame, index: tidegate.Index, query: SparkQuery, native: JoinPlan
) -> tuple[StructType, pa.Schema]:
    """Return the Spark schema of the result, and the types in which Spark receives it."""
    session, origins = left.sparkSession, origins_of(native)
    of_index = [one.name for one in origins.values() if one.side == "right"]
    of_index += [one.column for one in query.aggs.values() if one.column is not None]
    right, _ = struct_of(pa.schema([index.schema.field(name) for name in dict.fromkeys(of_index)]))
    found = spark_schema(origins, left.schema, right, native.keys, query.how)
    tables = empty(left, "left"), index.schema.empty_table()
    found = widened(found, native.schema, origins, tables)
    found = told_apart(session, found, origins, query.arguments["suffix"])
    of_right = aggregate_fields(query.aggs, right, index.schema, native.schema)
    result = StructType([*found, *of_right])
    return result, arrow(session, result)
