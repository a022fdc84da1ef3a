"""What is joined natively: the arguments of the join, and what rows may be divided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

import tidegate
from tidegate import _tidegate
from tidegate.spark.query.axis import Axis, TimeAxis, of_band
from tidegate.spark.query.bounds import reach
from tidegate.spark.query.schema import pair, pairs
from tidegate.spark.query.window import bounds

if TYPE_CHECKING:
    from tidegate._tidegate import JoinPlan
    from tidegate.spark.layout.layout import Reach
    from tidegate.spark.query.schema import KeyPairs
    from tidegate.types import Bound, Closed, Distance, How, KeyNames, Names, Window, Within

_DAY = 86_400_000_000

Kinds = tuple[pa.DataType, pa.DataType]


class Query(Protocol):
    """The arguments of a native join, their names made uniform."""

    function: ClassVar[str]
    of_streams: ClassVar[str]
    divided: ClassVar[str]

    @property
    def by(self) -> KeyPairs:
        """Columns that must be equal."""

    @property
    def where(self) -> tidegate.Expr | str | None:
        """A condition on the pair."""

    @property
    def how(self) -> How:
        """Which rows the result has."""

    @property
    def suffix(self) -> str:
        """What is added to a name that both sides have."""

    @property
    def compared(self) -> KeyPairs:
        """The columns that are compared beside the keys; rows are divided by the first."""

    @property
    def bands(self) -> KeyPairs:
        """Those of them in which a null or NaN matches nothing."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as the native function takes them."""

    @property
    def time(self) -> tuple[str, str] | None:
        """The time columns, if times are compared."""

    def axis(self, kinds: Kinds) -> tuple[Axis, Reach]:
        """What rows are divided by, given the first columns' types, and how far pairs reach."""

    def reach_in_time(self) -> Reach:
        """How many microseconds pairs reach, given that times are timestamps."""


@dataclass(frozen=True)
class IntervalQuery:
    """An interval join."""

    function: ClassVar[str] = "interval_join"
    of_streams: ClassVar[str] = "IntervalJoin"
    divided: ClassVar[str] = "time"

    on: tuple[str, str]
    by: KeyPairs
    lower: Bound
    upper: Bound
    where: tidegate.Expr | str | None
    how: How
    closed: Closed
    suffix: str

    @classmethod
    def of(  # noqa: PLR0913 - the arguments of the native join
        cls,
        *,
        on: Names,
        lower: Bound,
        upper: Bound,
        by: KeyNames | None = None,
        where: tidegate.Expr | str | None = None,
        how: How = "inner",
        closed: Closed = "both",
        suffix: str = "_right",
    ) -> IntervalQuery:
        """The query of these arguments."""
        return cls(pair(on), pairs(by), lower, upper, where, how, closed, suffix)

    @property
    def compared(self) -> KeyPairs:
        """The time columns."""
        return (self.on,)

    @property
    def time(self) -> tuple[str, str]:
        """The time columns."""
        return self.on

    @property
    def bands(self) -> KeyPairs:
        """None: a row without a time is refused."""
        return ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `tidegate.interval_join`."""
        return {
            "on": self.on,
            "by": list(self.by) or None,
            "lower": self.lower,
            "upper": self.upper,
            "where": self.where,
            "how": self.how,
            "closed": self.closed,
            "suffix": self.suffix,
        }

    def axis(self, kinds: Kinds) -> tuple[Axis, Reach]:
        """The time."""
        days = all(pa.types.is_date(kind) for kind in kinds)
        unit = None if pa.types.is_integer(kinds[0]) else _DAY if days else 1
        return TimeAxis(days), reach(self.lower, self.upper, unit=unit)

    def reach_in_time(self) -> Reach:
        """The bounds."""
        return reach(self.lower, self.upper, unit=1)


@dataclass(frozen=True)
class BandQuery:
    """A band join."""

    function: ClassVar[str] = "band_join"
    of_streams: ClassVar[str] = "BandJoin"
    divided: ClassVar[str] = "value"

    on: KeyPairs
    within: Within | list[Within] | Mapping[str, Within]
    time: tuple[str, str] | None
    window: Window | tuple[Window, Window] | None
    by: KeyPairs
    where: tidegate.Expr | str | None
    how: How
    suffix: str

    @classmethod
    def of(  # noqa: PLR0913 - the arguments of the native join
        cls,
        *,
        on: str | Sequence[Names] | Mapping[str, str],
        within: Within | list[Within] | Mapping[str, Within],
        time: Names | None = None,
        window: Window | tuple[Window, Window] | None = None,
        by: KeyNames | None = None,
        where: tidegate.Expr | str | None = None,
        how: How = "inner",
        suffix: str = "_right",
    ) -> BandQuery:
        """The query of these arguments."""
        if isinstance(on, tuple):
            message = "on: expected a name, a list of names or pairs, or a mapping, got a tuple; "
            message += 'give ["x", "y"] for two columns, or [("x", "y")] for one that has another '
            message += "name on the right"
            raise TypeError(message)
        if window is not None:
            # Refuses windows of rows, which have no order here.
            bounds(window)
        times = None if time is None else pair(time)
        return cls(pairs(on, "on"), within, times, window, pairs(by), where, how, suffix)

    @property
    def compared(self) -> KeyPairs:
        """The band columns, then the time columns."""
        return self.on if self.time is None else (*self.on, self.time)

    @property
    def bands(self) -> KeyPairs:
        """The band columns."""
        return self.on

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `tidegate.band_join`."""
        return {
            "on": list(self.on),
            "within": self.within,
            "time": self.time,
            "window": self.window,
            "by": list(self.by) or None,
            "where": self.where,
            "how": self.how,
            "suffix": self.suffix,
        }

    def axis(self, kinds: Kinds) -> tuple[Axis, Reach]:
        """The first band column."""
        return of_band(kinds, *self._ends())

    def reach_in_time(self) -> Reach:
        """The windows."""
        lower, upper = (None, None) if self.window is None else bounds(self.window)
        return reach(lower, upper, unit=1)

    def _ends(self) -> tuple[Distance | None, Distance | None]:
        """How far below and above the left value of the first column the right one may be."""
        within = self.within
        if isinstance(within, Mapping):
            within = within[self.on[0][0]]
        elif isinstance(within, list):
            within = within[0]
        return within if isinstance(within, tuple) else (within, within)


def native_plan(
    query: Query, left: pa.Table, right: pa.Table, columns: list[str] | None
) -> JoinPlan:
    """The native plan; raises what the native join raises for bad arguments."""
    plan: JoinPlan = getattr(_tidegate, f"plan_{query.function}")(
        left, right, **query.arguments, columns=columns
    )
    return plan


def joined(
    function: str, left: pa.Table, right: pa.Table, arguments: dict[str, Any]
) -> tidegate.BatchReader[Any]:
    """The native join batch by batch."""
    reader: tidegate.BatchReader[Any] = getattr(tidegate, f"{function}_batches")(
        left, right, **arguments
    )
    return reader
