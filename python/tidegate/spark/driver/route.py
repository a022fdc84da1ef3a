"""Chooses the route for a call's rows.

The routes are: files that tasks read themselves, broadcast, in place, one shuffle, time bins, and
streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

import tidegate
from tidegate.spark.driver import by_files, division, in_place, overlap
from tidegate.spark.driver.bins import asked_of, hashed, told, weighed, without_sample
from tidegate.spark.driver.by_files import Files
from tidegate.spark.driver.guess import guessed
from tidegate.spark.driver.whole import Whole, chosen, rows_beside
from tidegate.spark.layout.costs import of_rows
from tidegate.spark.stream import aggregate as stream_aggregate
from tidegate.spark.stream import join as stream_join
from tidegate.spark.worker.pack import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.spark.driver.in_place import InPlace
    from tidegate.spark.layout.bins import Bins
    from tidegate.spark.layout.costs import Costs, Form, Small
    from tidegate.spark.layout.layout import Integers, Layout
    from tidegate.spark.layout.overlap import OverlapLayout
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.join import Plan


AnyPlan = TypeVar("AnyPlan", "Plan", "AggregatePlan")

_SAMPLED = "by a sample of both sides"


class Broadcast(NamedTuple):
    """One side is sent in full to every task; `reason` explains why."""

    whole: Whole
    reason: str
    # The costs of all forms as text, if they were compared, and how they were estimated.
    costs: str | None = None
    basis: str | None = None


class Shuffled(NamedTuple):
    """Rows are packed and shuffled.

    For a join, `reason` explains why neither side is sent in full.
    """

    layout: Layout
    reason: str | None = None
    # The text about bins, if bins were an option.
    of_bins: str | None = None


class Overlapped(NamedTuple):
    """Rows with a start and an end are packed and shuffled.

    `reason` explains why neither side is sent in full.
    """

    layout: OverlapLayout
    reason: str
    # The text about bins, if bins were an option.
    of_bins: str | None = None


class Binned(NamedTuple):
    """Spark itself joins on equal keys and time bins; `reason` explains why."""

    bins: Bins
    # The costs of all forms as text, if rows were sampled.
    costs: str | None
    reason: str


class Stayed(NamedTuple):
    """Both sides are already partitioned by their keys, and are joined in place."""

    sides: InPlace
    reason: str
    # The costs of all forms as text, if they were compared.
    costs: str | None = None


class Streamed(NamedTuple):
    """Rows from streams pass through one stateful operator."""

    layout: Layout


Rows = Broadcast | Shuffled | Overlapped | Binned | Stayed
Way = Rows | Streamed | Files


class _Near(NamedTuple):
    """A side that may be sent in full, the row counts of both sides, and the reason.

    If there is no such side, `reason` explains why.
    """

    whole: Whole | None
    small: Small | None
    reason: str

    def told(self, costs: Costs) -> str:
        """Return the costs as text."""
        return told(costs, None if self.whole is None else NAMES[self.whole.side])

    @property
    def rather(self) -> str:
        """The reason, as the first half of a sentence whose second half names the cheaper form."""
        return f"{self.reason}, {'and' if self.whole is None else 'but'}"


# The functions for which the costs of all forms are compared. With other functions, a small side is
# always sent in full.
_WEIGHED = ("interval_join", "window_join", "overlap_join")

_NO_SAMPLE = "bins cost at most slightly more for any number of pairs, so no rows are sampled"
_TOGETHER = "rows with the same key and bin are adjacent, and"
_BINS, _NATIVE = "bins are clearly cheaper", "native calls with both sides shuffled are cheaper"
_FEW = "according to the files, there are few rows, so none are sampled"
_IN_PLACE = "rows that stay in their partitions are cheaper"

# The maximum size of the fullest partition, as a multiple of an even share for each core.
_EVEN = 1.5


def of_join(plan: Plan, *, fused: bool = False) -> Way:
    """Return the route of a join. For tables, the function collects a small side or samples rows.

    `fused` specifies whether `then` processes the result in the same call.
    """
    if fused and plan.parallelism == "bins":
        message = "parallelism 'bins' passes no rows to Python, where `then` runs; "
        message += "leave out `then` and call mapInArrow on the result, or leave out 'bins'"
        raise tidegate.TidegateError(message)
    if plan.streams:
        return Streamed(stream_join.layout(plan))
    return _of_files(plan, by_files.of_join) or _of_tables(plan, fused=fused)


def _of_tables(plan: Plan, *, fused: bool) -> Rows:
    """Return the route for a table join whose rows are read by Spark."""
    whole, reason = chosen(plan)
    near = _Near(whole, None, reason)
    of_bins = "`then` runs in Python" if fused else plan.without_bins
    if whole is not None:
        near = near._replace(small=_weighed_side(plan, whole))
        if near.small is None:
            return Broadcast(whole, reason)
        costs, basis = guessed(plan, whole, near.small, has_bins=of_bins is None)
        if costs.cheapest == "whole":
            return Broadcast(whole, reason, near.told(costs), basis)
        if of_bins is not None:
            text = f"{of_bins}; {near.told(costs)}"
            return _native(plan, near, f"{near.rather} {_NATIVE}", text)
    if plan.parallelism != "bins" and (plan.parallelism != "auto" or of_bins is not None):
        return _native(plan, near, reason, of_bins if plan.parallelism == "auto" else None)
    return _of_both(plan, near)


def _weighed_side(plan: Plan, whole: Whole) -> Small | None:
    """Return the collected side with the row counts, if another form could be chosen instead."""
    weighs = plan.parallelism == "auto" and plan.query.function in _WEIGHED
    return rows_beside(plan, whole) if weighs and plan.stream_side is None else None


def _native(plan: Plan, near: _Near, reason: str, of_bins: str | None) -> Rows:
    """Return a route that joins tables in native calls and sends neither side in full."""
    if plan.parallelism == "key":
        there = in_place.found(plan)
        if there is not None:
            return Stayed(there, reason)
    few = division.few_of(plan)
    if plan.has_intervals:
        return _of_layers(plan, near, reason, of_bins, few)
    if few is not None:
        return Shuffled(division.of_few(plan, few), f"{reason}, and {_FEW}", of_bins)
    if plan.parallelism == "key":
        return Shuffled(division.of_join(plan), reason, of_bins)
    sample = division.sample_of_join(plan)
    stayed = _stayed(plan, near, (sample.left_hash, sample.right_hash), sample.weight)
    return stayed or Shuffled(division.of_join(plan, sample), reason, of_bins)


def _of_layers(
    plan: Plan, near: _Near, reason: str, of_bins: str | None, few: float | None
) -> Overlapped | Stayed:
    """Return the route for native calls on rows that have a start and an end."""
    if few is not None:
        return Overlapped(overlap.of_few(plan, few), f"{reason}, and {_FEW}", of_bins)
    if plan.parallelism == "key":
        return Overlapped(overlap.of_join(plan), reason, of_bins)
    sample = overlap.sample_of_join(plan)
    left, right = (side.hashes for side in sample.sides)
    stayed = _stayed(plan, near, (left, right), sample.weight)
    return stayed or Overlapped(overlap.of_join(plan, sample), reason, of_bins)


def _stayed(
    plan: Plan, near: _Near, hashes: tuple[Integers, Integers], weight: float
) -> Stayed | None:
    """Return a route that leaves the rows in place, if this is cheaper than shuffling them."""
    sides = _there(plan, hashes, weight)
    if sides is None:
        return None
    left, right = (len(one) * weight for one in hashes)
    costs = of_rows((left, right), asked_of(plan), sides.there)
    text = f"{told(costs)}, without results"
    return Stayed(sides, f"{near.rather} {_IN_PLACE}", text) if costs.stays else None


def _there(plan: Plan, hashes: tuple[Integers, Integers], weight: float) -> InPlace | None:
    """Return the sides to join in place, unless key hashes show that a partition is too full."""
    sides = in_place.found(plan) if plan.parallelism == "auto" else None
    if sides is None or not sides.all_keys:
        return None
    rows = np.bincount(np.concatenate(hashes) % sides.partitions) * weight
    at_once = min(division.cores(plan.left.sparkSession), division.tasks_of(plan, rows.sum()))
    fullest = rows.max(initial=0)
    fits = fullest * sides.columns <= division.PARTITION_CELLS
    return sides if fits and fullest <= _EVEN * rows.sum() / at_once else None


def _of_both(plan: Plan, near: _Near) -> Broadcast | Shuffled | Binned | Stayed:
    """Return the route for a join of tables in which each row has a single time.

    Samples rows if needed.
    """
    unseen = without_sample(plan) if plan.parallelism == "auto" and near.whole is None else None
    if unseen is not None:
        reason = f"{_TOGETHER} {_NO_SAMPLE}" if unseen.together else _NO_SAMPLE
        return Binned(unseen, None, f"{near.rather} {reason}")
    sample = division.sample_of_join(plan)
    sides = _there(plan, (sample.left_hash, sample.right_hash), sample.weight)
    bins, costs = weighed(plan, sample, near.small, None if sides is None else sides.there)
    text = near.told(costs)
    form, reason = _form(plan, near, costs, bins)
    if form == "bins":
        return Binned(bins, text, reason)
    if form == "whole" and near.whole is not None:
        return Broadcast(near.whole, reason, text, _SAMPLED)
    if form == "in place" and sides is not None:
        return Stayed(sides, reason, text)
    return Shuffled(division.of_join(plan, sample), reason, text)


def _form(plan: Plan, near: _Near, costs: Costs, bins: Bins) -> tuple[Form, str]:
    """Return the form to use and the reason. Bins are excluded if Spark would have to sort rows."""
    if plan.parallelism == "bins":
        return "bins", near.reason
    can_bin = hashed(plan, bins) is not None
    form = costs.cheapest if can_bin else costs._replace(bins=None).cheapest
    if form == "bins":
        return form, f"{near.rather} {_BINS}"
    if form == "in place":
        return form, f"{near.rather} {_IN_PLACE}"
    if form == "whole" or near.whole is None:
        return form, near.reason
    return form, f"{near.rather} {_NATIVE}"


def _of_files(plan: AnyPlan, find: Callable[[AnyPlan], Files | str]) -> Files | None:
    """Return the route in which tasks read the input files, if that route should be used."""
    if plan.parallelism not in ("auto", "files"):
        return None
    found = find(plan)
    if isinstance(found, Files):
        return found
    if plan.parallelism == "files":
        message = f"parallelism 'files' lets tasks read Parquet files themselves, but {found}; "
        message += "give the paths of the files, or leave it out"
        raise tidegate.TidegateError(message)
    return None


def of_aggregation(plan: AggregatePlan) -> Shuffled | Streamed | Files:
    """Return the route of an aggregation. For tables, rows may be sampled to choose the route."""
    if plan.streams:
        return Streamed(stream_aggregate.layout(plan))
    return _of_files(plan, by_files.of_aggregation) or Shuffled(division.of_aggregation(plan))
