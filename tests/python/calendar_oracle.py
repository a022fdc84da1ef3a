"""Windows of calendar units, computed row by row with Python's `zoneinfo` and `calendar`.

A unit begins at the first time at which local clocks show its local start or a later time. The
search for this time looks at the clock every minute and assumes nothing about changes of the offset
except that they happen at whole minutes, as they do since 1972.
"""

import calendar
import datetime as dt
import functools
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass

UTC = dt.UTC
EPOCH = dt.date(1970, 1, 1)

ZONES = [
    "Africa/Casablanca",  # summer time ends for Ramadan
    "America/Caracas",  # half an hour, for some years
    "America/Havana",  # midnight occurs twice
    "America/New_York",
    "America/Phoenix",  # no summer time
    "America/Santiago",  # days that begin at 01:00
    "America/Sao_Paulo",  # days that began at 01:00, until 2018
    "America/St_Johns",  # changes at 00:01
    "Asia/Beirut",  # days that begin at 01:00
    "Asia/Kathmandu",  # 5:45
    "Asia/Kolkata",
    "Asia/Pyongyang",  # half an hour, in 2015 and 2018
    "Asia/Tehran",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Europe/Berlin",
    "Europe/Dublin",  # negative summer time
    "Pacific/Apia",  # no 2011-12-30
    "Pacific/Chatham",  # 12:45
    "Pacific/Kiritimati",  # no 1994-12-31
    "UTC",
]


@functools.cache
def zone_of(name: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(name)


def clock(zone: str, time: dt.datetime) -> dt.datetime:
    """Return what local clocks show."""
    return time.astimezone(zone_of(zone)).replace(tzinfo=None)


@functools.cache
def first_time(zone: str, local: dt.datetime) -> dt.datetime:
    """Return the first time at which clocks show a local time or a later one."""
    quarter, minute = dt.timedelta(minutes=15), dt.timedelta(minutes=1)
    time = local.replace(tzinfo=UTC) - dt.timedelta(hours=27)
    assert clock(zone, time) < local
    while clock(zone, time + quarter) < local:
        time += quarter
    while clock(zone, time) < local:
        time += minute
    return time


@dataclass(frozen=True)
class Windows:
    """Windows of `size` units every `advance` units; a unit is `days` days or `months` months."""

    zone: str
    unit: str
    size: int
    advance: int
    months: int = 0
    days: int = 0
    clock: dt.timedelta = dt.timedelta(0)
    week_start: str = "monday"

    def arguments(self) -> dict[str, str | None]:
        """Return the arguments of `aggregate`."""
        minutes = self.clock // dt.timedelta(minutes=1)
        parts = [(self.months, "mo"), (self.days, "d"), (minutes, "min")]
        return {
            "size": f"{self.size}{self.unit}",
            "advance": f"{self.advance}{self.unit}",
            "offset": "".join(f"{number}{unit}" for number, unit in parts if number) or None,
            "week_start": self.week_start if self.unit == "w" else None,
        }

    def _start(self, number: int) -> dt.datetime:
        """Return the local start of a unit."""
        midnight = dt.time()
        shift = dt.timedelta(days=self.days) + self.clock
        if self.unit in ("mo", "q", "y"):
            per_unit = {"mo": 1, "q": 3, "y": 12}[self.unit]
            year, month = divmod(number * per_unit + self.months, 12)
            return dt.datetime.combine(dt.date(1970 + year, 1 + month, 1), midnight) + shift
        if self.unit == "d":
            return dt.datetime.combine(EPOCH + number * dt.timedelta(days=1), midnight) + shift
        # The first such weekday on or after the epoch.
        names = [name.lower() for name in calendar.day_name]
        ahead = (names.index(self.week_start) - EPOCH.weekday()) % 7
        day = EPOCH + dt.timedelta(days=ahead + 7 * number)
        return dt.datetime.combine(day, midnight) + shift

    def bounds(self, k: int) -> tuple[dt.datetime, dt.datetime]:
        first = k * self.advance
        return (
            first_time(self.zone, self._start(first)),
            first_time(self.zone, self._start(first + self.size)),
        )

    def of(self, time: dt.datetime) -> Iterator[tuple[dt.datetime, dt.datetime]]:
        """Yield the windows that contain a time."""
        days = {"d": 1, "w": 7, "mo": 30.436875, "q": 91.310625, "y": 365.2425}[self.unit]
        since = (time - dt.datetime(1970, 1, 1, tzinfo=UTC)) / dt.timedelta(days=1)
        shift = self.months * 30.436875 + self.days + self.clock / dt.timedelta(days=1)
        last = int((since - shift) / days / self.advance) + 2
        for k in range(last - self.size // self.advance - 5, last + 1):
            start, end = self.bounds(k)
            if start <= time < end:
                yield start, end
