"""The route of a call's rows: one side sent whole, all rows in one shuffle, or streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidegate.spark.driver import division
from tidegate.spark.driver.whole import Whole, chosen
from tidegate.spark.stream import aggregate as stream_aggregate
from tidegate.spark.stream import join as stream_join

if TYPE_CHECKING:
    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.join import Plan


class Broadcast(NamedTuple):
    """One side is sent whole to every task, for a reason."""

    whole: Whole
    reason: str


class Shuffled(NamedTuple):
    """Rows are packed and shuffled; a join has a reason not to send a side whole."""

    layout: Layout
    reason: str | None = None


class Streamed(NamedTuple):
    """Rows of streams go through one stateful operator."""

    layout: Layout


def of_join(plan: Plan) -> Broadcast | Shuffled | Streamed:
    """The way of a join. Of tables, a small side is collected, or rows are sampled."""
    if plan.streams:
        return Streamed(stream_join.layout(plan))
    whole, reason = chosen(plan)
    if whole is not None:
        return Broadcast(whole, reason)
    return Shuffled(division.of_join(plan), reason)


def of_aggregation(plan: AggregatePlan) -> Shuffled | Streamed:
    """The way of an aggregation. Rows of tables are sampled."""
    if plan.streams:
        return Streamed(stream_aggregate.layout(plan))
    return Shuffled(division.of_aggregation(plan))
