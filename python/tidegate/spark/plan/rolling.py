"""The plan for rolling windows: the arguments, and the columns to send. It reads no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DateType, StructField, StructType

import tidegate
from tidegate._tidegate import RollingQuery
from tidegate.slices.rolling import window_length
from tidegate.spark.plan.checks import check_asked, check_division, check_late_as, empty
from tidegate.spark.plan.epochs import with_times
from tidegate.spark.plan.streams import check_engine, check_host, check_watermark
from tidegate.spark.query.input import Input, check_frames, check_keys, check_stored
from tidegate.spark.query.schema import aggregate_fields
from tidegate.windows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidegate._tidegate import AggregationPlan
    from tidegate.types import Epoch


@dataclass(frozen=True)
class RollingPlan:
    """Rolling windows of a DataFrame with checked arguments."""

    table: DataFrame
    query: RollingQuery
    keys: tuple[str, ...]
    native: AggregationPlan
    result: StructType
    partitions: int | None
    late_as: str | None

    @classmethod
    def of(
        cls,
        table: DataFrame,
        partitions: int | None,
        late_as: str | None,
        *,
        unit: Epoch | None = None,
        **arguments: Any,  # noqa: ANN401 - those of the native query
    ) -> RollingPlan:
        """Check the arguments of `tidegate.spark.rolling`."""
        check_frames([table], ["table"])
        [table] = with_times({"table": table}, {"table": [arguments["on"]]}, unit)
        by, aggs = arguments["by"], arguments["aggs"]
        check_stored("on", arguments["on"], [table])
        check_stored("by", by, [table])
        keys = [] if by is None else [by] if isinstance(by, str) else list(by)
        check_division(partitions, "key" if keys else "time", ("key", "time"), keyed=bool(keys))
        check_late_as(late_as, "a call on tables", streams=table.isStreaming)
        query = RollingQuery(**{**arguments, "by": keys})
        rows = empty(table, "table")
        native = query.plan([rows])
        check_asked(native.schema)
        check_keys(table, keys, "table")
        own = [_field(table.schema, name) for name in native.schema.names if name not in aggs]
        of_aggs = aggregate_fields(aggs, table.schema, rows.schema, native.schema)
        result = StructType([*own, *of_aggs])
        if late_as in result.names:
            message = f"late_as: the result already has a column {late_as!r}; choose another name"
            raise tidegate.SchemaError(message)
        if table.isStreaming:
            check_engine(table.sparkSession)
            check_watermark(table, "table", query.on)
            check_host(table.sparkSession)
        return cls(table, query, tuple(keys), native, result, partitions, late_as)

    @property
    def sent(self) -> tuple[str, ...]:
        """The columns that are sent: first the time, then the keys."""
        return tuple(dict.fromkeys((self.query.on, *self.keys, *self.native.columns[0])))

    @property
    def input(self) -> Input:
        """The rows with the columns that are sent."""
        return Input.of(self.table, self.sent, [self.query.on], self.keys)

    @property
    def rows(self) -> pa.Schema:
        """The schema of the columns that are sent."""
        return empty(self.table, "table").select([*self.sent]).schema

    @property
    def length(self) -> int | None:
        """The length of windows in the unit of times. None for row-based windows."""
        is_counted = isinstance(self.query.arguments["size"], Rows)
        return None if is_counted else window_length(self.query, self.rows)

    @property
    def in_days(self) -> bool:
        """Whether times are dates."""
        return isinstance(self.table.schema[self.query.on].dataType, DateType)

    @property
    def divided(self) -> DataFrame:
        """The rows of a table, with all rows of a key in the same partition."""
        # Columns are selected by position, so that no name needs quotes.
        every = self.table.columns
        renamed = self.table.toDF(*(f"a{at}" for at in range(len(every))))
        read = [F.col(f"a{every.index(name)}").alias(name) for name in self.native.columns[0]]
        of_keys = [F.col(f"a{every.index(name)}") for name in self.keys]
        if self.partitions is None and self.keys:
            return renamed.repartition(*of_keys).select(*read)
        return renamed.repartition(self.partitions or 1, *of_keys).select(*read)

    def told(self) -> dict[str, object]:
        """Return the arguments that identify a streaming query."""
        names: Sequence[str] = ("on", "size", "by", "closed", "aggs", "columns")
        return {name: self.query.arguments[name] for name in names}


def _field(schema: StructType, name: str) -> StructField:
    field = schema[name]
    return StructField(name, field.dataType, field.nullable, field.metadata)
