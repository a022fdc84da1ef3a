"""The plan for features: the join of each view, and the columns to send. It reads no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DateType, StructField, StructType

import tidegate
from tidegate import _tidegate
from tidegate.calls.feature_joins import Call, Named, ViewJoin, check_views, kept, planned
from tidegate.feature_views import FeatureView
from tidegate.spark.plan.checks import check_division, empty
from tidegate.spark.query.input import (
    by_position,
    check_frames,
    check_keys,
    check_stored,
    comparable,
)
from tidegate.spark.query.schema import aggregate_fields, arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tidegate.types import KeyNames

SIDE = "side"
"""The column with the number of the table from which a row was sent; labels have the number 0."""


@dataclass(frozen=True)
class Sent:
    """A table, the columns that are sent, and the columns with the keys by which it is divided."""

    frame: DataFrame
    names: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def struct(self) -> StructType:
        """The type of a row."""
        kinds = [self.frame.schema[name].dataType for name in self.names]
        return StructType([StructField(f"u{at}", kind) for at, kind in enumerate(kinds)])


@dataclass(frozen=True)
class FeaturesPlan:
    """Features of a DataFrame of labels, with checked arguments."""

    steps: tuple[ViewJoin, ...]
    """The join of each view; the table of a step is empty."""

    days: tuple[bool, ...]
    """For each view, whether its times are dates."""

    call: Call
    columns: tuple[str, ...]
    """The columns of the labels in the result."""

    sent: tuple[Sent, ...]
    """The labels, followed by the events of each view."""

    result: StructType
    partitions: int | None

    @classmethod
    def of(  # noqa: PLR0913 - the arguments of the call
        cls,
        labels: DataFrame,
        views: Mapping[str, FeatureView],
        *,
        on: str,
        by: KeyNames,
        names: str,
        columns: Sequence[str] | None,
        partitions: int | None,
    ) -> FeaturesPlan:
        """Check the arguments of `tidegate.spark.features`."""
        check_frames([labels], ["labels"])
        check_division(partitions, "key", ("key",), keyed=True)
        check_stored("on", on, [labels])
        check_stored("by", by, [labels])
        rows, call = empty(labels, "labels"), Call(on, by, names)
        tables = _tables(labels, views)
        empties = {
            name: replace(view, table=empty(tables[name], name)) for name, view in views.items()
        }
        steps = tuple(planned(rows, empties, call))
        plans = [_plan(step, rows) for step in steps]
        common = _common(steps, plans)
        own = tuple(kept(columns, labels.columns))
        used = [name for plan in plans for name in plan.needed[0]]
        sent = [Sent(labels, tuple(dict.fromkeys((*own, *used))), common)]
        fields = [labels.schema[name] for name in own]
        for step, plan in zip(steps, plans, strict=True):
            frame = tables[step.view]
            other = dict(plan.keys)
            keys = tuple(other[name] for name in common)
            check_keys(frame, [name for _, name in plan.keys], step.view)
            sent.append(Sent(frame, tuple(plan.needed[1]), keys))
            fields += aggregate_fields(
                step.arguments["aggs"], frame.schema, step.table.schema, plan.schema
            )
        check_keys(labels, common, "labels")
        times = [plan.time[0][1] for plan in plans]
        days = tuple(
            isinstance(one.frame.schema[time].dataType, DateType)
            for one, time in zip(sent[1:], times, strict=True)
        )
        return cls(steps, days, call, own, tuple(sent), StructType(fields), partitions)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return arrow(self.sent[0].frame.sparkSession, self.result)

    def divided(self) -> DataFrame:
        """Return the rows of all tables, with all rows of a key in the same partition.

        The rows of each table are in a separate column of structs.
        """
        structs = [one.struct for one in self.sent]
        parts = []
        for number, one in enumerate(self.sent):
            of_rows = by_position(one.frame, one.names)
            if number:
                known = [F.col(f"u{one.names.index(key)}").isNotNull() for key in one.keys]
                of_rows = of_rows.where(reduce(lambda some, more: some & more, known))
            values = [F.col(f"u{at}") for at in range(len(one.names))]
            rows = [F.lit(None).cast(kind).alias(f"r{at}") for at, kind in enumerate(structs)]
            rows[number] = F.struct(*values).alias(f"r{number}")
            hashed = F.expr(f"xxhash64({', '.join(self._hashed(number))})").alias("hash")
            parts.append(of_rows.select(F.lit(number).alias(SIDE), hashed, *rows))
        every = reduce(lambda one, other: one.unionAll(other), parts)
        hashed = F.col("hash")
        if self.partitions is None:
            placed = every.repartition(hashed)
        else:
            placed = every.repartition(self.partitions, hashed)
        return placed.drop("hash")

    def _hashed(self, number: int) -> list[str]:
        """Return SQL for the keys of a table, whose hashes equal those of equal keys elsewhere."""
        own = self.sent[number]
        found = []
        for place, key in enumerate(own.keys):
            mine = own.frame.schema[key].dataType
            kinds = [one.frame.schema[one.keys[place]].dataType for one in self.sent]
            theirs = next((kind for kind in kinds if kind != mine), mine)
            found.append(comparable(f"u{own.names.index(key)}", mine, theirs))
        return found


def _tables(labels: DataFrame, views: Mapping[str, FeatureView]) -> dict[str, DataFrame]:
    """Return the DataFrame of each view."""
    check_views(views)
    found = {}
    for name, view in views.items():
        check_frames([labels, view.table], ["labels", f"views[{name!r}]"])
        with Named(name):
            check_stored("on", view.on, [view.table])
            check_stored("by", view.by, [labels, view.table])
        found[name] = view.table
    for name, frame in {"labels": labels, **found}.items():
        if frame.isStreaming:
            message = f"{name}: features reads tables, not streams; join a stream of labels with "
            message += "one table after another by tidegate.spark.interval_join(..., aggs=...)"
            raise tidegate.TidegateError(message)
    return found


def _plan(step: ViewJoin, labels: pa.Table) -> Any:  # noqa: ANN401 - a plan with keys and a time
    with Named(step.view):
        query = _tidegate.interval_join_query(**step.arguments, columns=[])
        return query.plan(labels.schema, step.table.schema)


def _common(steps: Sequence[ViewJoin], plans: Sequence[Any]) -> tuple[str, ...]:
    """Return the key columns of the labels that all views have."""
    common = [left for left, _ in plans[0].keys]
    for step, plan in zip(steps, plans, strict=True):
        own = {left for left, _ in plan.keys}
        common = [name for name in common if name in own]
        if not common:
            message = (
                f"views[{step.view!r}]: by: rows are partitioned by key, but no key column of "
            )
            message += "the labels is a key of all views; compute this view by "
            message += "tidegate.spark.interval_join(..., aggs=...)"
            raise tidegate.TidegateError(message)
    return tuple(common)
