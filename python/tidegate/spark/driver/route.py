"""The route of a call's rows: a side sent whole, all in one shuffle, Spark's bins, or streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tidegate
from tidegate.spark.driver import division, levels, overlap
from tidegate.spark.driver.bins import hashed, told, weighed
from tidegate.spark.driver.whole import Whole, chosen
from tidegate.spark.stream import aggregate as stream_aggregate
from tidegate.spark.stream import join as stream_join

if TYPE_CHECKING:
    from tidegate.spark.layout.bins import Bins, Costs
    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.layout.levels import Levels
    from tidegate.spark.layout.overlap import OverlapLayout
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
    # What is said of bins where these could have been chosen.
    of_bins: str | None = None


class Overlapped(NamedTuple):
    """Rows with a start and an end are packed and shuffled, and no side is sent whole: why not."""

    layout: OverlapLayout
    reason: str
    # What is said of bins where these could have been chosen.
    of_bins: str | None = None


class Binned(NamedTuple):
    """Spark joins equal keys and bins of time by itself, for a reason."""

    bins: Bins
    costs: Costs
    reason: str


class Leveled(NamedTuple):
    """The same of rows with a start and an end, whose bins have the width of a level."""

    levels: Levels
    costs: Costs
    reason: str


class Streamed(NamedTuple):
    """Rows of streams go through one stateful operator."""

    layout: Layout


Way = Broadcast | Shuffled | Overlapped | Binned | Leveled | Streamed


def of_join(plan: Plan, *, fused: bool = False) -> Way:
    """The way of a join. Of tables, a small side is collected, or rows are sampled.

    `fused` says whether a function takes the result in the same call.
    """
    if fused and plan.parallelism == "bins":
        message = "parallelism 'bins' hands no rows to Python, where `then` takes them: leave out "
        message += "`then`, and call mapInArrow of the result, or leave out 'bins'"
        raise tidegate.TidegateError(message)
    if plan.streams:
        return Streamed(stream_join.layout(plan))
    whole, reason = chosen(plan)
    if whole is not None:
        return Broadcast(whole, reason)
    if plan.has_intervals:
        return _of_intervals(plan, reason, fused=fused)
    return _of_both(plan, reason, fused=fused)


def _of_both(plan: Plan, reason: str, *, fused: bool) -> Shuffled | Binned:
    """The way of a join of tables whose rows have one time, where neither is sent whole."""
    if plan.parallelism == "bins":
        return Binned(*weighed(plan, division.sample_of_join(plan)), reason)
    if plan.parallelism != "auto":
        return Shuffled(division.of_join(plan), reason)
    sample = division.sample_of_join(plan)
    of_bins = "`then` takes rows in Python" if fused else plan.without_bins
    if of_bins is None:
        bins, costs = weighed(plan, sample)
        if costs.bins_are_cheaper and hashed(plan, bins) is not None:
            return Binned(bins, costs, f"{reason}, and bins are clearly cheaper")
        of_bins = told(costs)
    return Shuffled(division.of_join(plan, sample), reason, of_bins)


def _of_intervals(plan: Plan, reason: str, *, fused: bool) -> Overlapped | Leveled:
    """The same of rows that have a start and an end."""
    if plan.parallelism == "bins":
        return Leveled(*levels.weighed(plan, overlap.sample_of_join(plan)), reason)
    if plan.parallelism != "auto":
        return Overlapped(overlap.of_join(plan), reason)
    sample = overlap.sample_of_join(plan)
    of_bins = "`then` takes rows in Python" if fused else plan.without_bins
    if of_bins is None:
        found, costs = levels.weighed(plan, sample)
        if costs.bins_are_cheaper and levels.method(plan, found) is not None:
            return Leveled(found, costs, f"{reason}, and bins are clearly cheaper")
        of_bins = told(costs)
    return Overlapped(overlap.of_join(plan, sample), reason, of_bins)


def of_aggregation(plan: AggregatePlan) -> Shuffled | Streamed:
    """The way of an aggregation. Rows of tables are sampled."""
    if plan.streams:
        return Streamed(stream_aggregate.layout(plan))
    return Shuffled(division.of_aggregation(plan))
