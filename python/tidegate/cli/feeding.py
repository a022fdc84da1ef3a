"""Threads that push rows from growing files into an operator."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate.io.followers import Follower, Piece, Place
from tidegate.io.growing import Stopped
from tidegate.io.iso_times import PER_SECOND
from tidegate.runtime.rows import size_of

# The maximum number of bytes to hold for a file that is ahead of the others.
HELD_BYTES = 1 << 29

# The maximum number of seconds between two checks for a stop request.
PATIENCE_S = 0.1

DAY_NS = 86_400 * 10**9


class Feeder(threading.Thread):
    """Pushes rows from a growing file into an operator."""

    def __init__(self, operator: tidegate.Operator[Any], number: int, reading: "Reading") -> None:
        super().__init__(name=f"tidegate-feed{number}")
        self._operator = operator
        self._number = number
        self._source = operator.sources[number]
        self._reading = reading
        self._pieces: Iterator[Piece] = reading.follower.pieces()
        self.place = reading.place
        """The position after the last row that was pushed."""

        self.pushing = threading.Lock()
        """Held while rows are being pushed. While it is not held, the operator and `place` are
        consistent."""

        self.failure: BaseException | None = None
        self.is_flushed = False
        """Whether the clock has advanced the time of this file."""

        self.last_time: int | None = None
        """The latest time in this file, in nanoseconds unless times are integers."""

        self.last_rows_s = time.monotonic()
        """When the last rows were read."""

        self._is_closed = False
        self._held: deque[tuple[int, int]] = deque()
        """For each push with held rows, the watermark after the push and its size in bytes."""

    @property
    def name_of_file(self) -> str:
        """The name of the file."""
        return self._reading.follower.name

    @property
    def time_type(self) -> pa.DataType:
        """The type of the time column."""
        return self._reading.follower.schema.field(self._reading.on).type

    @property
    def is_open(self) -> bool:
        """Whether this file may still provide more rows."""
        return not self._is_closed

    @property
    def has_unit(self) -> bool:
        """Whether the times of this file have a unit, so that a clock can advance them."""
        return not pa.types.is_integer(self.time_type)

    @property
    def silent_s(self) -> float:
        """The number of seconds since rows were last read."""
        return time.monotonic() - self.last_rows_s

    def read_again(self, until: Place) -> Iterator[None]:
        """Push the rows before a position, without starting the thread."""
        while self.place is None or self.place.mark.position < until.mark.position:
            self._push(next(self._pieces))
            yield

    def run(self) -> None:
        """Push rows until the file ends or a stop is requested."""
        reading = self._reading
        try:
            for piece in self._pieces:
                pushed = self._push(piece)
                reading.news.set()
                self._wait_for_others(pushed)
            with self.pushing:
                self._is_closed = True
                self._source.close()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - the command ends with any error
            self.failure = error
        reading.news.set()

    def _push(self, piece: Piece) -> int:
        """Push rows, and return their size in bytes."""
        rows = piece.rows.select(self._reading.columns)
        with self.pushing:
            if rows.num_rows:
                self._source.push(rows)
                self.last_rows_s = time.monotonic()
                latest = _number(pc.max(rows.column(self._reading.on))) * self._scale
                self.last_time = max(latest, self.last_time or latest)
            self.place = piece.end
            # Late rows are only counted, so they are discarded here.
            self._operator.late()
        return size_of(rows)

    def advance(self, latest: int, *, later: bool) -> None:
        """Advance the time of this file to the latest time of all files, or one unit beyond it.

        Args:
            latest: The latest time of all files, in nanoseconds unless times are integers.
            later: Whether to advance one unit beyond `latest`, so that `latest` itself has passed.
        """
        time_of_file = latest // self._scale + later
        with self.pushing:
            if not self._is_closed:
                self._source.advance(time_of_file)
                self.is_flushed = True

    @property
    def _scale(self) -> int:
        """The number of nanoseconds in one unit of the time column, or 1 for integers."""
        kind = self.time_type
        if pa.types.is_timestamp(kind):
            return int(10**9 // PER_SECOND[kind.unit])
        if pa.types.is_date(kind):
            return DAY_NS if pa.types.is_date32(kind) else 10**6
        return 1

    def _wait_for_others(self, pushed: int) -> None:
        """Wait while many rows from this file are held because other files lag behind."""
        own = self._operator.stats()["sources"][self._number]["watermark"]
        if own is not None:
            self._held.append((own, pushed))
        while not self._reading.stop.wait(0):
            reached = self._operator.stats()["watermark"]
            while self._held and reached is not None and self._held[0][0] <= reached:
                self._held.popleft()
            if sum(held for _, held in self._held) < HELD_BYTES:
                return
            self._reading.stop.wait(PATIENCE_S)
        raise Stopped


@dataclass(frozen=True)
class Reading:
    """A file, and the events that its reader shares with other readers."""

    follower: Follower
    place: Place | None
    columns: list[str]
    on: str
    """The time column."""

    news: threading.Event
    stop: threading.Event


def _number(time_of_row: pa.Scalar) -> int:
    """Return a time as an integer in the unit of its column."""
    number: int = getattr(time_of_row, "value", None) or time_of_row.cast(pa.int64()).as_py()
    return number


def flush(feeders: Sequence[Feeder], after_s: float) -> None:
    """Stop waiting for files that have had no new rows for this many seconds.

    The time of a silent file advances to the latest time of all files. While all files are silent,
    their time advances with the clock, so that the last rows and windows become final.
    """
    known = [feeder.last_time for feeder in feeders if feeder.last_time is not None]
    open_ones = [feeder for feeder in feeders if feeder.is_open]
    silent = [feeder for feeder in open_ones if feeder.silent_s >= after_s]
    if not known or not silent:
        return
    latest, are_all = max(known), len(silent) == len(open_ones)
    if are_all and silent[0].has_unit:
        latest += int((min(feeder.silent_s for feeder in silent) - after_s) * 10**9)
    for feeder in silent:
        feeder.advance(latest, later=are_all)
