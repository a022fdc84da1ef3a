"""Joins streaming DataFrames with one stateful operator.

As in a join of tables, rows are packed by key bucket before they are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from tidegate.spark.layout.cycle import Cycle
from tidegate.spark.layout.layout import by_key
from tidegate.spark.query.schema import arrow
from tidegate.spark.stream.operators import Sides
from tidegate.spark.stream.stateful import Finish, buckets, digest, division, outgoing, stateful
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate._tidegate import JoinQuery
    from tidegate.agg import Aggregate
    from tidegate.spark.layout.layout import Copied, Layout
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.query.schema import Origin
    from tidegate.spark.worker.task import Call


def layout(plan: Plan) -> Layout:
    """Return the layout of streams: slices if requested or if there is no key."""
    number = buckets(plan.partitions, plan.left.sparkSession)
    if plan.is_sliced:
        of_how: dict[str, Copied] = {"right": "left", "full": "both"}
        copied = of_how.get(plan.query.how, "right")
        keyed = plan.parallelism == "hybrid"
        return Cycle.of(number, copied, plan.reach, keyed=keyed)
    return by_key(number if plan.native.keys else 1, "right", plan.reach)


def joined(plan: Plan, layout: Layout, call: Call, schema: StructType) -> DataFrame:
    """Return the join as a streaming DataFrame."""
    packs = plan.packed(LEFT, layout).union(plan.packed(RIGHT, layout))
    late = None if plan.late_as is None else StructField(plan.late_as, StringType())
    schema = outgoing(schema, late)
    finish = _Finish(
        output=call.output,
        schema=None if late is None else arrow(plan.left.sparkSession, schema),
        sides=(plan.columns.left, plan.columns.right),
        origins=plan.columns.origins,
        by=tuple(plan.native.keys),
    )
    results = stateful(packs, _sides(plan, layout, call), layout.partitions, plan.query.function)
    return results.mapInArrow(on_worker(finish.run, "tidegate_join"), schema)


def _sides(plan: Plan, layout: Layout, call: Call) -> Sides:
    """Return the join in the form that the workers need."""
    (left, right), reach = plan.time
    lower, upper, width = reach.lower, reach.upper, reach.width
    # The prevailing row can be arbitrarily far before the interval.
    before = None if lower is None or plan.query.has_prevailing else -lower
    reports = plan.reports
    schemas = plan.columns.left, plan.columns.right
    return Sides(
        join=call.query,
        max_width=plan.max_width,
        schemas=schemas,
        times=(schemas[LEFT].names.index(left), schemas[RIGHT].names.index(right)),
        # A row is needed as long as a matching row on the other side can still arrive. If the
        # result depends on whether a row was matched, the row is also needed for as long as any of
        # its possible partners.
        lasting=(
            _longest(upper, width if reports[RIGHT] else 0),
            _longest(before, width if reports[LEFT] else 0),
        ),
        query=digest(
            _CLASSES[call.query.function],
            division(layout),
            [*map(str, schemas)],
            sorted(told(_arguments(call.query, plan)).items()),
        ),
        keeps_late=plan.late_as is not None,
        gives_left_rows=plan.query.comes_once,
        ties=None if plan.order is None else plan.order.on,
        # A single one of the right rows with the same key within reach may be enough.
        condenses=plan.query.is_asof or plan.query.has_prevailing,
        home=plan.home_names if layout.copied == "both" else None,
        keys=(plan.inputs[LEFT].by, plan.inputs[RIGHT].by),
    )


# The names of the joins in checkpoints.
_CLASSES = {
    "interval_join": "IntervalJoin",
    "band_join": "BandJoin",
    "asof_join": "AsofJoin",
    "overlap_join": "OverlapJoin",
}

# Arguments of native queries that checkpoints do not contain.
_UNTOLD = {"algorithm", "batch_rows", "max_rows", "settings", "threads"}


def _arguments(query: JoinQuery, plan: Plan) -> dict[str, Any]:
    """Return the arguments that identify a query in a checkpoint, as in earlier versions."""
    known = {name: value for name, value in query.arguments.items() if name not in _UNTOLD}
    if plan.max_width is not None:
        known["max_width"] = plan.max_width
    # Options that earlier versions did not have are left out unless they are used.
    for name in ("open_ends", "limit", "order", "at", "long", "n"):
        if not known.get(name):
            known.pop(name, None)
    if plan.query.of_windows:
        del known["closed"], known["prevailing"]
    if not plan.query.aggs:
        known.pop("aggs", None)
        known.pop("prevailing", None)
    return known


def told(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments in a form that stays the same when a query is restarted."""
    found = dict(arguments)
    if found.get("aggs"):
        found["aggs"] = [(name, _one_told(one)) for name, one in found["aggs"].items()]
    for name, value in found.items():
        # Windows are converted to bounds in microseconds, which checkpoints store without a unit.
        if isinstance(value, np.timedelta64) and np.datetime_data(value.dtype) == ("us", 1):
            found[name] = int(value.astype(np.int64))
    return found


def _one_told(one: Aggregate) -> str:
    """Return an aggregate as text; a user-defined function is identified by its name."""
    if one.udf is None:
        return repr(one)
    function = one.udf.function
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return repr((name, one.inputs, one.where, str(one.udf.returns)))


def _longest(*times: int | None) -> int | None:
    """Return the longest duration, but at least 0, or None if any duration is None (unlimited)."""
    return None if None in times else max(0, *(time for time in times if time is not None))


@dataclass(frozen=True)
class _Finish(Finish):
    """Finishes the output of a join. Late rows keep their columns, and a new column names the side.

    For a row whose end is too far away, the side number is increased by the number of sides.
    """

    sides: tuple[pa.Schema, pa.Schema]
    origins: tuple[Origin, ...]
    by: tuple[tuple[str, str], ...]

    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:
        """Return the columns of late rows or rows that are too wide."""
        is_wide, side = divmod(side, len(NAMES))
        columns = [self._column(rows, side, origin) for origin in self.origins]
        # Aggregates of partners are null.
        of_partners = schema.types[len(columns) : -1]
        columns += [pa.nulls(rows.num_rows, kind) for kind in of_partners]
        text = f"{NAMES[side]} wide" if is_wide else NAMES[side]
        return [*columns, pa.array([text] * rows.num_rows)]

    def _column(self, rows: pa.RecordBatch, side: int, origin: Origin) -> pa.Array:
        """Return the values of late rows for one result column."""
        shared = side == RIGHT and (origin.name, origin.name) in self.by
        if origin.side != NAMES[side] and not shared:
            return pa.nulls(rows.num_rows)
        return rows.column(self.sides[side].names.index(origin.name))
