"""Threads that push rows from growing files into an operator."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

import tidegate
from tidegate.io.followers import Follower, Place
from tidegate.io.growing import Stopped
from tidegate.runtime.rows import size_of

# The maximum number of bytes to hold for a file that is ahead of the others.
HELD_BYTES = 1 << 29

# The maximum number of seconds between two checks for a stop request.
PATIENCE_S = 0.1


class Feeder(threading.Thread):
    """Pushes rows from a growing file into an operator."""

    def __init__(self, operator: tidegate.Operator[Any], number: int, reading: "Reading") -> None:
        super().__init__(name=f"tidegate-feed{number}")
        self._operator = operator
        self._number = number
        self._source = operator.sources[number]
        self._reading = reading
        self.place = reading.place
        """The position after the last row that was pushed."""

        self.pushing = threading.Lock()
        """Held while rows are being pushed. While it is not held, the operator and `place` are
        consistent."""

        self.failure: BaseException | None = None
        self._held: deque[tuple[int, int]] = deque()
        """For each push with held rows, the watermark after the push and its size in bytes."""

    def run(self) -> None:
        """Push rows until the file ends or a stop is requested."""
        reading = self._reading
        try:
            for piece in reading.follower.pieces():
                rows = piece.rows.select(reading.columns)
                with self.pushing:
                    if rows.num_rows:
                        self._source.push(rows)
                    self.place = piece.end
                    # Late rows are only counted, so they are discarded here.
                    self._operator.late()
                reading.news.set()
                self._wait_for_others(size_of(rows))
            with self.pushing:
                self._source.close()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - the command ends with any error
            self.failure = error
        reading.news.set()

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
    news: threading.Event
    stop: threading.Event
