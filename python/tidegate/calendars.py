"""The sessions of a market, as a table of windows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tidegate import _tidegate
from tidegate._tidegate import TidegateError
from tidegate.calls.arguments import told
from tidegate.deferred import Deferred
from tidegate.types import Weekday

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

Day: TypeAlias = dt.date | str
Clock: TypeAlias = dt.time | str

__all__ = ["calendar"]

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no time zone
SECOND = dt.timedelta(seconds=1)
DAY = dt.timedelta(days=1)


@told
def calendar(  # noqa: PLR0913 - the properties of a market
    first: Day,
    last: Day,
    *,
    opens: Clock,
    closes: Clock,
    zone: str | None = None,
    weekdays: Sequence[Weekday] = ("monday", "tuesday", "wednesday", "thursday", "friday"),
    holidays: Iterable[Day] = (),
    special: Mapping[Day, tuple[Clock, Clock]] | None = None,
) -> pa.Table:
    """Return a market's sessions as a table for the `windows` of an aggregation.

    Example:
        The first session begins before the clocks change in New York, and the second one after:

        >>> import tidegate as tg
        >>> sessions = tg.calendar(
        ...     "2026-03-06", "2026-03-09", opens="09:30", closes="16:00", zone="America/New_York"
        ... )
        >>> [str(start) for start in sessions["window_start"].to_pylist()]
        ['2026-03-06 09:30:00-05:00', '2026-03-09 09:30:00-04:00']

    Args:
        first: The first day, as a date or as a string such as "2026-03-06".
        last: The last day, inclusive.
        opens: The local time at which a session begins: a time, or a string such as "09:30".
        closes: The local time at which a session ends. If this time is not after `opens`, the
            session ends on the next day.
        zone: The time zone: a name such as "America/New_York", or an offset such as "+05:30". None
            returns local times without a time zone.
        weekdays: The days of the week on which sessions begin.
        holidays: Days without a session.
        special: Opening and closing times for individual days, such as days on which the market
            closes early. Such a day has a session even if it is a holiday or is not in `weekdays`.

    Returns:
        A table with the columns `window_start` and `window_end`, sorted by time. If the clocks skip
        the start or the end of a session, it is the first time after the skipped period. If such a
        local time occurs twice, the first occurrence counts.

    Raises:
        TidegateError: A day, a time, a weekday or the time zone is invalid, or `last` is before
            `first`.
        TypeError: An argument has the wrong type.
    """
    begin, end = _day("first", first), _day("last", last)
    if end < begin:
        message = f"last is {end}, which is before first, {begin}; swap the two"
        raise TidegateError(message)
    unknown = [name for name in weekdays if name not in WEEKDAYS]
    if unknown:
        message = f"weekdays: expected names such as 'monday', got {unknown[0]!r}"
        raise TidegateError(message)
    usual = (_clock("opens", opens), _clock("closes", closes))
    closed = {_day("holidays", day) for day in holidays}
    own = {
        _day("special", day): (_clock("special", hours[0]), _clock("special", hours[1]))
        for day, hours in (special or {}).items()
    }
    bounds: list[tuple[int, int]] = []
    for number in range((end - begin).days + 1):
        day = begin + number * DAY
        is_open = WEEKDAYS[day.weekday()] in weekdays and day not in closed
        hours = own.get(day, usual if is_open else None)
        if hours is not None:
            later = DAY if hours[1] <= hours[0] else dt.timedelta(0)
            bounds.append((_seconds(day, hours[0]), _seconds(day + later, hours[1])))
    return _table([start for start, _ in bounds], [end for _, end in bounds], zone)


def _table(starts: list[int], ends: list[int], zone: str | None) -> pa.Table:
    # Imported late, so that importing tidegate does not import pyarrow.
    import pyarrow as pa  # noqa: PLC0415

    def times(local: list[int]) -> pa.Array:
        instants = local if zone is None else _tidegate.instants_of(zone, local)
        return pa.array([1_000_000 * time for time in instants], pa.int64()).cast(
            pa.timestamp("us", zone)
        )

    return pa.table({"window_start": times(starts), "window_end": times(ends)})


def _seconds(day: dt.date, clock: dt.time) -> int:
    """Return a local time in seconds since the epoch."""
    return (dt.datetime.combine(day, clock) - EPOCH) // SECOND


def _day(name: str, given: object) -> dt.date:
    if isinstance(given, dt.datetime):
        return given.date()
    if isinstance(given, dt.date):
        return given
    if not isinstance(given, str):
        message = f"{name}: expected a date or a string such as '2026-03-06', got {given!r}"
        raise TypeError(message)
    try:
        return dt.date.fromisoformat(given)
    except ValueError:
        message = f"{name}: {given!r:.80} is not a day; write a string such as '2026-03-06'"
        raise TidegateError(message) from None


def _clock(name: str, given: object) -> dt.time:
    if isinstance(given, dt.time):
        clock = given
    elif isinstance(given, str):
        try:
            clock = dt.time.fromisoformat(given)
        except ValueError:
            message = f"{name}: {given!r:.80} is not a time of day; write a string such as '09:30'"
            raise TidegateError(message) from None
    else:
        message = f"{name}: expected a time or a string such as '09:30', got {given!r}"
        raise TypeError(message)
    if clock.tzinfo is not None or clock.microsecond:
        message = f"{name}: expected whole seconds and no time zone, got {given!r}; "
        message += "pass the time zone as zone"
        raise TidegateError(message)
    return clock
