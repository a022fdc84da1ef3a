"""What `tidegate join --follow` does: read both files as they grow, write what is final."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import pyarrow as pa

import tidegate
from tidegate.cli.joining import Arguments, Job, needed_columns
from tidegate.cli.saved import Saved
from tidegate.cli.tables import Output
from tidegate.files import BatchWriter
from tidegate.growing import Follower, Place, Stopped, follow, live_writer

# What may be held for a side that is ahead of the other; it waits then.
HELD_BYTES = 1 << 30

# How long a wait may last before it is looked whether somebody has asked to stop.
PATIENCE_S = 0.1


@dataclass(frozen=True)
class Counts:
    """What was read and written; its text is the last line of the command."""

    rows: int
    late: int
    out: int
    seconds: float

    def __str__(self) -> str:
        """Tell the counts."""
        late = f" ({self.late:,} of them late)" if self.late else ""
        return f"{self.rows:,} rows in{late}, {self.out:,} rows out, {self.seconds:.2f} s"


class _Feeder(threading.Thread):
    """Pushes the rows of a growing file."""

    def __init__(self, join: tidegate.IntervalJoin, number: int, reading: "_Reading") -> None:
        super().__init__()
        self._join = join
        self._number = number
        self._source = join.sources[number]
        self._reading = reading
        self.place = reading.place
        """Behind the rows that were pushed."""

        self.failure: BaseException | None = None

    def run(self) -> None:
        reading = self._reading
        try:
            for piece in reading.follower.pieces():
                self._wait_for_room()
                self._source.push(piece.rows.select(reading.columns))
                self.place = piece.end
                # Late rows are counted; nobody asks for them here.
                self._join.late()
                reading.news.set()
            self._source.close()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the command ends with it
            self.failure = error
        reading.news.set()

    def _wait_for_room(self) -> None:
        """Wait while much is held and this is not the source that holds it back."""
        while not self._reading.stop.wait(0):
            stats = self._join.stats()
            own, all_ = stats["sources"][self._number]["watermark"], stats["watermark"]
            if stats["memory"] < HELD_BYTES or own is None or own == all_:
                return
            self._reading.stop.wait(PATIENCE_S)
        raise Stopped


@dataclass(frozen=True)
class _Reading:
    """A side's file, and what its reader shares with the others."""

    follower: Follower
    place: Place | None
    columns: list[str]
    news: threading.Event
    stop: threading.Event


def run(
    job: Job[Arguments], output: Output, *, lateness: str | int | None, state: str | None
) -> Counts:
    """Join two files as they grow, until both have ended or Ctrl-C."""
    start = time.perf_counter()
    output.check()
    saved = None if state is None else Saved.load(state, job)
    stop, news = threading.Event(), threading.Event()
    with _stopped_by_signals(stop, news):
        places = (None, None) if saved is None else saved.places
        try:
            left, right = (
                follow(given.name, given.layout, stop, csv_nulls=given.csv_nulls, place=place)
                for given, place in zip((job.left, job.right), places, strict=True)
            )
        except Stopped:
            return Counts(0, 0, 0, time.perf_counter() - start)
        join, columns = _join(job, left, right, lateness)
        if saved is not None:
            join.restore(saved.join)
        with join:
            readings = [
                _Reading(follower, place, names, news, stop)
                for follower, place, names in zip((left, right), places, columns, strict=True)
            ]
            feeders = [_Feeder(join, number, reading) for number, reading in enumerate(readings)]
            with live_writer(output.name, output.layout, join.schema) as writer:
                _feed_and_write(join, feeders, writer, news, stop)
            stats = join.stats()
            if state is not None:
                _save(state, job, join, feeders)
    seconds = time.perf_counter() - start
    return Counts(stats["rows_in"], stats["rows_late"], stats["rows_out"], seconds)


def _feed_and_write(
    join: tidegate.IntervalJoin,
    feeders: list[_Feeder],
    writer: BatchWriter,
    news: threading.Event,
    stop: threading.Event,
) -> None:
    """Write what is final until both sources have ended, or until the stop."""
    for feeder, source in zip(feeders, join.stats()["sources"], strict=True):
        if not source["closed"]:
            feeder.start()
    try:
        is_over = False
        while not is_over:
            news.clear()
            # Looked at before the poll, which then has all that was pushed.
            is_over = not any(feeder.is_alive() for feeder in feeders)
            for batch in iter(join.poll, None):
                writer.write_batch(batch)
            for feeder in feeders:
                if feeder.failure is not None:
                    raise feeder.failure
            if not is_over:
                news.wait(PATIENCE_S)
    finally:
        stop.set()
        for feeder in feeders:
            if feeder.is_alive():
                feeder.join()


def _save(
    state: str, job: Job[Arguments], join: tidegate.IntervalJoin, feeders: list[_Feeder]
) -> None:
    """Save where a stopped join is; one that has ended cannot go on."""
    if all(source["closed"] for source in join.stats()["sources"]):
        Saved.remove(state)
    else:
        left, right = (feeder.place for feeder in feeders)
        Saved(join.snapshot(), (left, right)).save(state, job)


def _join(
    job: Job[Arguments], left: Follower, right: Follower, lateness: str | int | None
) -> tuple[tidegate.IntervalJoin, tuple[list[str], list[str]]]:
    """The join of the columns that it needs, and their names on both sides."""
    arguments = job.arguments
    needed = needed_columns(left.schema, right.schema, arguments)
    left_names = left.schema.names if needed[0] is None else needed[0]
    right_names = right.schema.names if needed[1] is None else needed[1]
    join = tidegate.IntervalJoin(
        _selected(left.schema, left_names),
        _selected(right.schema, right_names),
        on=arguments["on"],
        by=arguments["by"],
        lower=arguments["lower"],
        upper=arguments["upper"],
        where=arguments["where"],
        how=arguments["how"],
        closed=arguments["closed"],
        suffix=arguments["suffix"],
        columns=arguments["columns"],
        threads=arguments["threads"],
        lateness=lateness,
        # Beside others that run on this machine.
        pin=False,
    )
    return join, (left_names, right_names)


def _selected(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names], schema.metadata)


@contextmanager
def _stopped_by_signals(*events: threading.Event) -> Iterator[None]:
    """Set the events at the first Ctrl-C or SIGTERM; the second does what it always does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for event in events:
            event.set()
        for known, handler in before.items():
            signal.signal(known, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
