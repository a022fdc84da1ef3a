"""A native join as it is asked for: a function, and the arguments of its caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

import tidegate
from tidegate import _tidegate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import JoinPlan
    from tidegate.agg import Aggregate
    from tidegate.types import How, Length

Function = Literal["interval_join", "window_join", "band_join", "asof_join", "overlap_join"]

_OF_STREAMS: dict[Function, str] = {
    "interval_join": "IntervalJoin",
    "band_join": "BandJoin",
    "asof_join": "AsofJoin",
}


@dataclass(frozen=True)
class JoinQuery:
    """A native join. Only the native plan of it reads its arguments."""

    function: Function
    arguments: dict[str, Any]

    @property
    def aggs(self) -> dict[str, Aggregate]:
        """The functions of partners; none where the result has pairs."""
        return dict(self.arguments.get("aggs") or {})

    @property
    def how(self) -> How:
        """Which rows the result has: where a left row comes once, left ones only."""
        how: How | None = self.arguments.get("how")
        if not self.comes_once:
            return how or "inner"
        return "semi" if how == "inner" else how or "left"

    @property
    def comes_once(self) -> bool:
        """Whether a left row comes at most once, so that one task must have all its candidates."""
        return bool(self.aggs) or self.is_asof

    @property
    def is_asof(self) -> bool:
        """Whether a left row has at most one partner, the nearest in time."""
        return self.function == "asof_join"

    @property
    def is_overlap(self) -> bool:
        """Whether rows have a start and an end, and pair where they overlap."""
        return self.function == "overlap_join"

    @property
    def intervals(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The start and the end column of the left and of the right side, if rows have these."""
        # The native plan has refused all but names, and pairs of them.
        on = self.arguments["on"]
        return (on, on) if isinstance(on[0], str) else on

    @property
    def has_prevailing(self) -> bool:
        """Whether the last right row before an interval is a partner, too."""
        return bool(self.arguments.get("prevailing"))

    @property
    def row_ends(self) -> tuple[bool, bool]:
        """Whether the lower and the upper end of the interval are expressions over columns."""
        lower, upper = (
            isinstance(end, tidegate.Expr)
            or (isinstance(end, str) and ("left." in end or "right." in end))
            for end in (self.arguments.get("lower"), self.arguments.get("upper"))
        )
        return lower, upper

    def reads_for_ends(self, side: Literal["left", "right"]) -> bool:
        """Whether an end is computed from columns of a side."""
        ends = (self.arguments.get(name) for name in ("lower", "upper"))
        computed = (end for end, is_of_row in zip(ends, self.row_ends, strict=True) if is_of_row)
        return any(f"{side}." in str(end) for end in computed)

    @property
    def of_ends(self) -> dict[str, Any]:
        """The arguments of an interval join that say where intervals start and end."""
        names = ("on", "lower", "upper", "closed")
        return {name: self.arguments[name] for name in names if name in self.arguments}

    def ends_read(self, left: pa.Schema, right: pa.Schema) -> tuple[list[str], list[str]]:
        """The columns that the ends of an interval join are computed from, and the times."""
        plan = _tidegate.plan_interval_join(
            left.empty_table(),
            right.empty_table(),
            **self.of_ends,
            columns=[self.arguments["on"][0]],
        )
        return plan.left_columns, plan.right_columns

    def check_stream(self, left: pa.Schema, right: pa.Schema, **more: Any) -> None:  # noqa: ANN401
        """Raise what the native join of streams raises for bad arguments."""
        getattr(tidegate, self.of_streams)(left, right, **self.arguments, **more)

    def width(self, tables: Sequence[pa.Table], on: tuple[str, str], longest: Length) -> int:
        """A length of time in steps of the time columns, rounded down."""
        plan = _tidegate.plan_interval_join(*tables, on=on, lower=None, upper=longest)
        return 0 if plan.time is None else int(plan.time[1][1] or 0)

    @property
    def divided(self) -> Literal["time", "value"]:
        """The thing that rows may be divided by, beside their keys."""
        return "value" if self.function == "band_join" else "time"

    @property
    def of_streams(self) -> str:
        """The class that does this join for streams."""
        return _OF_STREAMS[self.function]

    def plan(
        self, left: pa.Table, right: pa.Table, columns: Sequence[str] | None = None
    ) -> JoinPlan:
        """The native plan; raises what the native join raises for bad arguments."""
        windows = self.arguments.get("window")
        for window in windows if isinstance(windows, tuple) else (windows,):
            if isinstance(window, tidegate.Rows):
                message = f"window: {window!r} counts rows in their order, and the rows of a "
                message += "DataFrame have none beyond their times: give a window of time, or "
                message += "collect both sides and join them with tidegate.window_join or "
                message += "tidegate.band_join"
                raise tidegate.TidegateError(message)
        plan: JoinPlan = getattr(_tidegate, f"plan_{self.function}")(
            left, right, **self.arguments, columns=columns
        )
        return plan

    def sides_of_where(self, left: pa.Table, right: pa.Table) -> tuple[bool, bool]:
        """Whether the condition reads columns of the left side, and of the right one."""
        # With a time and a result of their own, all other columns are the condition's.
        name = "time".ljust(1 + max(map(len, [*left.column_names, *right.column_names])), "_")
        sides = [table.append_column(name, pa.array([], pa.int64())) for table in (left, right)]
        plan = _tidegate.plan_interval_join(
            *sides, on=name, lower=0, upper=0, where=self.arguments.get("where"), columns=[name]
        )
        return plan.left_columns != [name], plan.right_columns != [name]

    def settled(self, plan: JoinPlan, tables: Sequence[pa.Table]) -> JoinQuery:
        """The same query in one form: names are pairs, windows of time are bounds."""
        arguments = {**self.arguments, "by": plan.keys or None, "how": self.how}
        if self.is_asof:
            how = self.arguments.get("how")
            on = None if plan.time is None else plan.time[0]
            return JoinQuery("asof_join", {**arguments, "on": on, "how": how})
        if self.aggs:
            arguments |= {"how": self.arguments.get("how") or "left", "aggs": self.aggs}
        else:
            # A restarted stream is known by its arguments, and one of pairs never had these.
            arguments.pop("aggs", None)
            arguments.pop("prevailing", None)
        if self.is_overlap:
            return JoinQuery("overlap_join", {**arguments, "on": self.intervals})
        time = None if plan.time is None else plan.time[0]
        if self.function == "band_join":
            bands = [columns for columns, _ in plan.bands]
            return JoinQuery("band_join", {**arguments, "on": bands, "time": time})
        arguments["on"] = time
        if self.function == "window_join" and plan.time is not None:
            del arguments["window"]
            names, ends = plan.time
            kinds = [
                table.schema.field(name).type for table, name in zip(tables, names, strict=True)
            ]
            arguments["lower"], arguments["upper"] = (_length(end, kinds) for end in ends)
        return JoinQuery("interval_join", arguments)


def _length(steps: float | None, kinds: Sequence[pa.DataType]) -> float | np.timedelta64 | None:
    """A number of steps of the finer of the types of times as a length, which has a unit."""
    if steps is None or not all(map(pa.types.is_temporal, kinds)):
        return steps
    # Spark's timestamps count microseconds.
    return np.timedelta64(int(steps), "D" if all(map(pa.types.is_date, kinds)) else "us")


def joined(
    function: str, left: pa.Table, right: pa.Table, arguments: dict[str, Any]
) -> tidegate.BatchReader[Any]:
    """The native join batch by batch."""
    reader: tidegate.BatchReader[Any] = getattr(tidegate, f"{function}_batches")(
        left, right, **arguments
    )
    return reader
