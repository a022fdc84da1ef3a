"""Determines whether Spark can run a join with time bins, and the distances between paired rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.bugs import bug
from tidegate.spark.layout.bins import Ends

if TYPE_CHECKING:
    from tidegate._tidegate import JoinPlan
    from tidegate.spark.query.query import SparkQuery

# The native plan returns ends that are not integers as floats, which are exact up to this limit.
_EXACT = 2**53

# The same limit for dates, which have 32 bits.
_DAYS = 2**30


def unfit(query: SparkQuery, native: JoinPlan, tables: tuple[pa.Table, pa.Table]) -> str | None:
    """Return why a join cannot use time bins, or None if it can."""
    if query.is_overlap:
        return "bins all have the same width, but rows in overlap joins vary in length"
    if native.time is None or native.bands or query.is_asof:
        return "only interval and window joins can use time bins"
    asked = {
        "only native calls can aggregate partners": bool(query.aggs),
        "only native calls can limit the pairs of a row": query.has_limit,
        "a full join keeps rows from both sides, but bins copy only one side": query.how == "full",
        "Spark may interpret the condition in `where` differently": (
            query.arguments.get("where") is not None
        ),
    }
    reasons = [reason for reason, holds in asked.items() if holds]
    if any(query.row_ends):
        return "its ends are computed from columns, so they differ from row to row"
    kinds = _types(tables, native.time[0])
    most = _DAYS if all(map(pa.types.is_date, kinds)) else _EXACT
    if any(end is None or abs(end) > most for end in native.time[1]):
        reasons.append("one end of its interval is missing or too far away")
    for names in native.keys:
        kinds = _types(tables, names)
        if kinds[0] != kinds[1] and not all(map(pa.types.is_integer, kinds)):
            reasons.append(f"the keys {names} have different types, {kinds[0]} and {kinds[1]}")
    return reasons[0] if reasons else None


def _types(tables: tuple[pa.Table, pa.Table], names: tuple[str, str]) -> list[pa.DataType]:
    return [table.schema.field(name).type for table, name in zip(tables, names, strict=True)]


def exact_ends(native: JoinPlan) -> Ends:
    """Return the smallest and largest distance between matching rows, inclusive."""
    lower, upper = native.distances
    if lower is None or upper is None:
        bug("a join needs two bounds to use bins")
    return Ends(lower, upper)
