"""Feature views: the tables that `features` reads, with the values to compute for each label.

Examples use `tg` for `tidegate`, and this table:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> clicks = pa.table({"ts": [8, 10, 29], "user": ["A", "A", "A"], "price": [9.0, 8.0, 7.0]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from tidegate._tidegate import TidegateError
from tidegate.agg import Aggregate
from tidegate.expressions import Expr
from tidegate.types import Bound, Closed, End, SideValues, Value

__all__ = ["FeatureView"]

Delay: TypeAlias = Bound | Expr
"""A duration, an integer if times are integers, or an expression over right columns."""


@dataclass(frozen=True)
class FeatureView:
    """A table of events, and the values that `features` computes from it for each label.

    For each label, a view reads the events with the same keys whose times are within an interval
    relative to the label's time. By default, these are all events up to the time of the label.

    Example:
        The number of clicks in the last 10 time units, and the last price:

        >>> view = tg.FeatureView(
        ...     clicks, aggs={"clicks": tg.agg.count(lower=-10)}, columns=["price"]
        ... )
        >>> labels = pa.table({"ts": [10, 30], "user": ["A", "A"]})
        >>> tg.features(labels, {"web": view}, on="ts", by="user").to_pylist()
        [{'ts': 10, 'user': 'A', 'web_clicks': 2, 'web_price': 8.0},
         {'ts': 30, 'user': 'A', 'web_clicks': 1, 'web_price': 7.0}]

    Args:
        table: The events. `features` accepts the same kinds of tables as a join, and
            `tidegate.Features` expects a schema.
        aggs: Aggregates from `tidegate.agg`, keyed by name. Each function can have its own
            interval, as in `agg.count(lower="-7d")`.
        columns: The columns whose values are taken from the last event in the interval.
        on: The time column of the events. None means that it has the same name as that of the
            labels.
        by: The key columns of the events, in the order of the call's `by`, or a mapping from label
            columns to event columns. None means that they have the same names as those of the
            labels. With an empty list, a label sees the events of all keys.
        lower: The start of the interval, as a distance from the label's time. None includes all
            earlier events.
        upper: The end of the interval, as a distance from the label's time. None includes all later
            events, which are usually not known at the time of the label.
        closed: The ends that the interval includes: `both`, `left`, `right` or `neither`.
        where: A condition that a label and an event must satisfy, written as in `interval_join`.
        available_after: The time that passes before an event is known. A label then sees an event
            only if the event's time plus `available_after` is not later than the label's time. The
            value is a duration, an integer if times are integers, or an expression over
            `tidegate.right` columns, so that each event has its own delay.
        available_at: The column with the time at which an event becomes known, instead of
            `available_after`. A label does not see events for which this time is null.

    Raises:
        TidegateError: The view has no values to compute, or two arguments exclude each other.
        TypeError: An argument has the wrong type.
    """

    table: Any
    _: KW_ONLY
    aggs: Mapping[str, Aggregate] | None = None
    columns: Sequence[str] | None = None
    on: Value | None = None
    by: SideValues | None = None
    lower: End = None
    upper: End = 0
    closed: Closed = "both"
    where: Expr | str | None = None
    available_after: Delay = None
    available_at: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            message = f"columns: expected a list of names; write [{self.columns!r}]"
            raise TypeError(message)
        if self.aggs is not None and not isinstance(self.aggs, Mapping):
            message = "aggs: expected a mapping of names to functions such as "
            message += f"tidegate.agg.count(), got {type(self.aggs).__name__}"
            raise TypeError(message)
        for name, function in (self.aggs or {}).items():
            if not isinstance(function, Aggregate):
                message = f"aggs: expected a function such as tidegate.agg.count() for {name!r}, "
                message += f"got {type(function).__name__}"
                raise TypeError(message)
        if not self.aggs and not self.columns:
            message = "a view has no values to compute; give aggs, such as "
            message += 'aggs={"n": tidegate.agg.count()}, or columns'
            raise TidegateError(message)
        if both := {*(self.aggs or ())} & {*(self.columns or ())}:
            message = f"aggs and columns both contain {min(both)!r}; rename the aggregate"
            raise TidegateError(message)
        if self.available_after is not None and self.available_at is not None:
            message = "available_after and available_at exclude each other; give only one of them"
            raise TidegateError(message)
