"""Rolling windows of streaming DataFrames, as one stateful operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import BooleanType, StructField

from tidegate.spark.layout.layout import Reach, by_key
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.schema import arrow
from tidegate.spark.stream.join import told
from tidegate.spark.stream.operators import RollingRows
from tidegate.spark.stream.stateful import Finish, buckets, digest, division, outgoing, stateful
from tidegate.spark.worker.pack import PACKS, RIGHT, Marked, Packer
from tidegate.spark.worker.task import Output, on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.plan.rolling import RollingPlan


def layout(plan: RollingPlan) -> Layout:
    """Return the layout of a stream, whose rows are divided by key."""
    number = buckets(plan.partitions, plan.table.sparkSession)
    return by_key(number if plan.keys else 1, "right", Reach.of(0, 0))


def rolled(plan: RollingPlan, layout: Layout) -> DataFrame:
    """Return the rows and their aggregates as a streaming DataFrame."""
    late = None if plan.late_as is None else StructField(plan.late_as, BooleanType())
    schema = outgoing(plan.result, late)
    session = plan.table.sparkSession
    # The columns that are sent are in another order than those of the DataFrame.
    own = plan.result.names[: -len(plan.query.arguments["aggs"])]
    finish = _Finish(
        output=Output(tuple(plan.result.names), None, None),
        schema=None if late is None else arrow(session, schema),
        places=tuple(map(plan.sent.index, own)),
    )
    work = RollingRows(
        schema=plan.rows,
        rolling=plan.query.replace(columns=own),
        length=plan.length,
        query=digest(
            "rolling", division(layout), str(plan.rows), sorted(told(plan.told()).items())
        ),
        keeps_late=plan.late_as is not None,
        by=plan.keys,
    )
    results = stateful(_packed(plan, layout), work, layout.partitions, "rolling")
    return results.mapInArrow(on_worker(finish.run, "tidegate_rolling"), schema)


def _packed(plan: RollingPlan, layout: Layout) -> DataFrame:
    """Return the rows to send as packs. Each pack is for one bucket."""
    count, given = len(layout.buckets), plan.input
    rows = given.frame
    if count > 1:
        bucket = F.expr(f"cast(pmod({given.key_hash(given)}, {count}) as int)")
        rows = rows.select("*", bucket.alias("bucket"))
    extra = 1 if count > 1 else 0
    packer = Packer(layout, RIGHT, given.on, TimeAxis(plan.in_days), extra=extra)
    return rows.mapInArrow(on_worker(Marked(packer.run).run, "tidegate_pack_rows"), PACKS)


@dataclass(frozen=True)
class _Finish(Finish):
    """Finishes the output. Late rows keep their columns, and their aggregates are null.

    `places` contains the positions of the result's columns among those of a row.
    """

    places: tuple[int, ...]

    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:  # noqa: ARG002 - one side
        """Return the columns of late rows."""
        columns = [rows.column(place) for place in self.places]
        columns += [pa.nulls(rows.num_rows, kind) for kind in schema.types[len(columns) : -1]]
        return [*columns, pa.repeat(True, rows.num_rows)]  # noqa: FBT003 - a value
