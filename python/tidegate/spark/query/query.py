"""A native join for Spark: the query, and the properties that matter for DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

import tidegate
from tidegate._tidegate import join_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.agg import Aggregate
    from tidegate.types import How

Function = Literal["interval_join", "window_join", "band_join", "asof_join", "overlap_join"]


@dataclass(frozen=True)
class SparkQuery:
    """A native join of DataFrames."""

    native: JoinQuery
    of_windows: bool = False
    """True if the interval join replaces a window join."""

    @classmethod
    def of(cls, function: Function, arguments: dict[str, Any]) -> SparkQuery:
        """Build the query for a function. Raises the same errors as the native join."""
        return cls(join_query(function, arguments))

    @property
    def function(self) -> str:
        """The name of the function that this query belongs to."""
        return self.native.function

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the native query."""
        return self.native.arguments

    @property
    def aggs(self) -> dict[str, Aggregate]:
        """The functions that aggregate partners; empty if the result contains pairs."""
        return dict(self.arguments.get("aggs") or {})

    @property
    def how(self) -> How:
        """The rows that the result contains; only left rows if each is returned at most once."""
        how = self.native.how
        return "semi" if self.comes_once and how == "inner" else how

    @property
    def comes_once(self) -> bool:
        """Return whether a single task must join a left row with all of its partners.

        The left row is then returned at most once, or its pairs are limited.
        """
        return bool(self.aggs) or self.is_asof or self.has_limit

    @property
    def is_asof(self) -> bool:
        """Return whether a left row's only partner is the row nearest in time."""
        return self.function == "asof_join"

    @property
    def has_lookups(self) -> bool:
        """Return whether an as-of join looks up more than one right row per left row."""
        given = self.arguments
        more = given.get("at") is not None or given.get("n") is not None
        return self.is_asof and (more or given["strategy"] == "interpolate")

    @property
    def has_limit(self) -> bool:
        """Return whether only some pairs of each left row are in the result."""
        return self.arguments.get("limit") is not None

    @property
    def is_overlap(self) -> bool:
        """Return whether rows have a start and an end and match if they overlap."""
        return self.function == "overlap_join"

    @property
    def has_open_ends(self) -> bool:
        """Return whether a null start or end means that the row has no start or end."""
        return bool(self.arguments.get("open_ends"))

    @property
    def has_prevailing(self) -> bool:
        """Return whether the last right row before an interval is also a partner."""
        return bool(self.arguments.get("prevailing"))

    @property
    def row_ends(self) -> tuple[bool, bool]:
        """Return, for each end of the interval, whether it is an expression that reads columns."""
        return self.native.row_ends

    @property
    def of_ends(self) -> JoinQuery:
        """A copy of this interval join with only its ends, which may be computed from columns."""
        on = self.arguments["on"]
        return self.native.replace(
            by=None, where=None, how=None, aggs=None, prevailing=False, columns=[on[0]]
        )

    @property
    def divided(self) -> Literal["time", "value"]:
        """The criterion, in addition to the keys, by which rows can be divided."""
        return "value" if self.function == "band_join" else "time"

    def plan(
        self, left: pa.Table, right: pa.Table | tidegate.Index, columns: Sequence[str] | None = None
    ) -> JoinPlan:
        """Return the native plan. Raises the same errors as the native join."""
        windows = self.arguments.get("window")
        for window in windows if isinstance(windows, tuple) else (windows,):
            if isinstance(window, tidegate.Rows):
                message = f"window: {window!r} counts rows in order, "
                message += "but the rows of a DataFrame are ordered only by their times; "
                message += "give a time window, or collect both sides and join them with "
                message += "tidegate.window_join or tidegate.band_join"
                raise tidegate.TidegateError(message)
        return self.native.replace(columns=columns).plan(left, right)

    def settled(self, plan: JoinPlan, tables: Sequence[pa.Table]) -> SparkQuery:
        """Return the same query in a uniform form: names as pairs, and time windows as bounds."""
        by, how = plan.keys or None, self.how
        time = None if plan.time is None else plan.time[0]
        if self.is_asof:
            return SparkQuery(self.native.replace(by=by, on=time))
        if self.aggs or self.has_limit:
            how = self.native.how
        if self.is_overlap:
            return SparkQuery(self.native.replace(by=by, how=how, on=plan.intervals))
        if self.function == "band_join":
            bands = [columns for columns, _ in plan.bands]
            return SparkQuery(self.native.replace(by=by, how=how, on=bands, time=time))
        if self.function == "window_join" and plan.time is not None:
            return self._of_window(plan, tables, how)
        return SparkQuery(self.native.replace(by=by, how=how, on=time))

    def _of_window(self, plan: JoinPlan, tables: Sequence[pa.Table], how: How) -> SparkQuery:
        """Return a window join as an interval join."""
        assert plan.time is not None  # noqa: S101 - for mypy
        names, ends = plan.time
        kinds = [table.schema.field(name).type for table, name in zip(tables, names, strict=True)]
        lower, upper = (_length(end, kinds) for end in ends)
        given = self.arguments
        arguments = {name: given[name] for name in ("where", "suffix", "aggs")}
        arguments |= {"on": names, "lower": lower, "upper": upper, "by": plan.keys or None}
        native = join_query("interval_join", {**arguments, "how": how})
        return SparkQuery(native, of_windows=True)


def _length(steps: float | None, kinds: Sequence[pa.DataType]) -> float | np.timedelta64 | None:
    """Convert a number of steps to a length in the unit of the finer time column."""
    if steps is None or not all(map(pa.types.is_temporal, kinds)):
        return steps
    # Spark's timestamps count microseconds.
    return np.timedelta64(int(steps), "D" if all(map(pa.types.is_date, kinds)) else "us")
