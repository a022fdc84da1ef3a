"""The costs of a join if its large side were like the small one, which is here already.

A small side was collected before it is sent whole. Its keys and times stand for the other's,
too, whose number of rows is all that is known. This needs no job. It only decides whether a
sample of both sides is worth its cost: no form is taken by it that needs a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegate.spark.driver import bins
from tidegate.spark.driver.division import SAMPLED
from tidegate.spark.layout.balance import Sample
from tidegate.spark.layout.costs import looking, without_bins
from tidegate.spark.worker.pack import NAMES, RIGHT

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.spark.driver.whole import Whole
    from tidegate.spark.layout.costs import Costs, Small
    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.plan.join import Plan


class Guess(NamedTuple):
    """The costs of a join, and the way in which they were found."""

    costs: Costs
    basis: str


def guessed(plan: Plan, whole: Whole, small: Small, *, has_bins: bool) -> Guess:
    """The costs of all forms, without a sample: bins and native calls cost a sample, too."""
    sampling = looking(sum(small.rows))
    mine, other = NAMES[whole.side], NAMES[1 - whole.side]
    if has_bins and whole.rows.num_rows:
        costs = _with_bins(plan, whole, small)
        return Guess(costs.after(sampling), f"no sample: {other} is assumed to resemble {mine}")
    costs = without_bins(small, bins.asked_of(plan))
    return Guess(costs.after(sampling), "no sample: the cost of results is not included")


def _with_bins(plan: Plan, whole: Whole, small: Small) -> Costs:
    """Return the costs, assuming that the other side has similar times."""
    rows, at, weight = _drawn(whole, small)
    keys = _numbered(rows, plan.inputs[whole.side].by)
    times = plan.axis.integers(rows.column(plan.inputs[whole.side].on))
    left, right = ((keys[of], times[of]) for of in at)
    _, costs = bins.weighed(plan, Sample(*left, *right, weight), small)
    return costs


def _drawn(whole: Whole, small: Small) -> tuple[pa.Table, tuple[slice, slice], float]:
    """Rows, places among them that stand for either side, and how many rows each place stands for.

    No row stands for both sides: it would be its own partner.
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
    """A number for each row, the same for equal keys."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for at in by:
        codes = rows.column(at).combine_chunks().dictionary_encode().indices.fill_null(-1)
        # Few rows are drawn, so that these products are far below 64 bits.
        both = numbers * (rows.num_rows + 1) + codes.to_numpy(zero_copy_only=False)
        numbers = np.unique(both, return_inverse=True)[1]
    return numbers
