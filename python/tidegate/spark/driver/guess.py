"""Estimates the costs of a join, assuming that the large side resembles the small one.

A small side is collected before it is sent in full. Only the number of rows is known for the large
side, so its keys and times are assumed to resemble those of the small side. The estimate needs no
job. The estimate is used only to decide whether a sample of both sides is worth its cost, and never
to select a form that needs a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegate.spark.driver import bins
from tidegate.spark.driver.division import SAMPLED
from tidegate.spark.layout.balance import Sample
from tidegate.spark.layout.costs import without_bins
from tidegate.spark.worker.pack import NAMES, RIGHT

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.spark.driver.whole import Whole
    from tidegate.spark.layout.costs import Costs, Small
    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.plan.join import Plan


class Guess(NamedTuple):
    """A join's estimated costs, and the method of estimation."""

    costs: Costs
    basis: str


def guessed(plan: Plan, whole: Whole, small: Small, *, has_bins: bool) -> Guess:
    """Estimate the costs of all forms; for bins and native calls, include the cost of a sample."""
    asked = bins.asked_of(plan)
    sampling = asked.prices.looking(sum(small.rows))
    mine, other = NAMES[whole.side], NAMES[1 - whole.side]
    if has_bins and whole.rows.num_rows:
        costs = _with_bins(plan, whole, small)
        return Guess(costs.after(sampling), f"no sample: {other} is assumed to resemble {mine}")
    costs = without_bins(small, asked)
    return Guess(costs.after(sampling), "no sample: the cost of results is not included")


def _with_bins(plan: Plan, whole: Whole, small: Small) -> Costs:
    """Return the costs, assuming that the other side has similar keys and times."""
    rows, at, weight = _drawn(whole, small)
    keys = _numbered(rows, plan.inputs[whole.side].by)
    times = plan.axis.integers(rows.column(plan.inputs[whole.side].on))
    left, right = ((keys[of], times[of]) for of in at)
    _, costs = bins.weighed(plan, Sample(*left, *right, weight), small)
    return costs


def _drawn(whole: Whole, small: Small) -> tuple[pa.Table, tuple[slice, slice], float]:
    """Return sampled rows, each side's slice, and the number of rows that a sampled row represents.

    Unless there is only one row, no row is used for both sides, because it would match itself.
    """
    count = whole.rows.num_rows
    weight = max(1.0, sum(small.rows) / SAMPLED)
    random = np.random.default_rng(0)
    order = random.choice(count, min(count, 2 * SAMPLED), replace=False)
    half = (len(order) + 1) // 2
    halves = order[:half], order[half:] if count > 1 else order
    if whole.side == RIGHT:
        halves = halves[::-1]
    left, right = (
        random.choice(of, max(1, round(number / weight)))
        for of, number in zip(halves, small.rows, strict=True)
    )
    rows = whole.rows.take(np.concatenate([left, right]))
    return rows, (slice(None, len(left)), slice(len(left), None)), weight


def _numbered(rows: pa.Table, by: tuple[int, ...]) -> Integers:
    """Return a number for each row; rows with equal keys have equal numbers."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for at in by:
        codes = rows.column(at).combine_chunks().dictionary_encode().indices.fill_null(-1)
        # Few rows are drawn, so these products fit easily into 64 bits.
        both = numbers * (rows.num_rows + 1) + codes.to_numpy(zero_copy_only=False)
        numbers = np.unique(both, return_inverse=True)[1]
    return numbers
