"""What `--follow` does: read files as they grow, join or aggregate them, write what is final."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

import pyarrow as pa

import tidegate
from tidegate.cli import aggregating, joining
from tidegate.cli.saved import Saved
from tidegate.cli.tables import Input, Output
from tidegate.files import BatchWriter
from tidegate.growing import Follower, Place, Stopped, follow, live_writer

# What may be held of a file that is ahead of the others; it waits then.
HELD_BYTES = 1 << 29

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


class Operator(Protocol):
    """What `tidegate.IntervalJoin` and `tidegate.Aggregate` have in common."""

    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102 - as theirs
    @property
    def sources(self) -> list[tidegate.Source]: ...  # noqa: D102
    def poll(self) -> pa.RecordBatch | None: ...  # noqa: D102
    def late(self) -> pa.Table: ...  # noqa: D102
    def stats(self) -> Mapping[str, Any]: ...  # noqa: D102
    def explain(self) -> str: ...  # noqa: D102
    def snapshot(self) -> bytes: ...  # noqa: D102
    def restore(self, snapshot: bytes) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


Made = tuple[Operator, list[list[str]]]
"""An operator, and the columns of each file that it reads."""


@dataclass(frozen=True)
class Work:
    """What is done with growing files, and by what that is called in messages."""

    name: str
    inputs: Sequence[Input]
    make: Callable[[list[pa.Schema]], Made]

    @property
    def names(self) -> list[str]:
        """The files."""
        return [given.name for given in self.inputs]


class _Feeder(threading.Thread):
    """Pushes the rows of a growing file."""

    def __init__(self, operator: Operator, number: int, reading: "_Reading") -> None:
        super().__init__()
        self._operator = operator
        self._number = number
        self._source = operator.sources[number]
        self._reading = reading
        self.place = reading.place
        """Behind the rows that were pushed."""

        self.failure: BaseException | None = None
        self._held: deque[tuple[int, int]] = deque()
        """Of pushes that are held: the watermark after each, and their bytes."""

    def run(self) -> None:
        reading = self._reading
        try:
            for piece in reading.follower.pieces():
                rows = piece.rows.select(reading.columns)
                self._source.push(rows)
                self.place = piece.end
                # Late rows are counted; nobody asks for them here.
                self._operator.late()
                reading.news.set()
                self._wait_for_others(rows.nbytes)
            self._source.close()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the command ends with it
            self.failure = error
        reading.news.set()

    def _wait_for_others(self, pushed: int) -> None:
        """Wait while much of this file is held for those that are behind it."""
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
class _Reading:
    """A file, and what its reader shares with the others."""

    follower: Follower
    place: Place | None
    columns: list[str]
    news: threading.Event
    stop: threading.Event


def joined(job: joining.Job[joining.Arguments], lateness: str | int | None) -> Work:
    """The join of two files."""
    arguments = job.arguments

    def make(schemas: list[pa.Schema]) -> Made:
        left, right = schemas
        needed = joining.needed_columns(left, right, arguments)
        left_names = left.names if needed[0] is None else needed[0]
        right_names = right.names if needed[1] is None else needed[1]
        join = tidegate.IntervalJoin(
            _selected(left, left_names),
            _selected(right, right_names),
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
        return join, [left_names, right_names]

    return Work("join", (job.left, job.right), make)


def aggregated(job: aggregating.Job, lateness: str | int | None) -> Work:
    """The aggregation of files, all of which have the columns of the first."""
    arguments = job.arguments

    def make(schemas: list[pa.Schema]) -> Made:
        first, names = schemas[0], [given.name for given in job.streams]
        for name, schema in zip(names, schemas, strict=True):
            for field in first:
                _check_column(field, schema, name, names[0])
        windows = tidegate.Aggregate(
            first,
            on=arguments["on"],
            size=arguments["size"],
            advance=arguments["advance"],
            offset=arguments["offset"],
            session=arguments["session"],
            by=arguments["by"],
            aggs=arguments["aggs"],
            where=arguments["where"],
            sources=len(schemas),
            lateness=lateness,
            threads=arguments["threads"],
        )
        return windows, [first.names] * len(schemas)

    return Work("aggregation", job.streams, make)


def _check_column(field: pa.Field, schema: pa.Schema, name: str, first: str) -> None:
    if field.name not in schema.names:
        message = f"{name}: there is no column `{field.name}`, which {first} has"
        raise tidegate.SchemaError(message)
    found = schema.field(field.name).type
    if found != field.type:
        message = (
            f"{name}: column `{field.name}` is {found}, and {field.type} in {first}; give all "
            "files the same types, as Arrow streams do"
        )
        raise tidegate.SchemaError(message)


def _selected(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names], schema.metadata)


def plan(work: Work) -> str:
    """Tell how the files would be worked on; only their first rows are read."""
    followers = _followers(work, (None,) * len(work.inputs), threading.Event())
    operator, _ = work.make([follower.schema for follower in followers])
    try:
        return operator.explain()
    finally:
        operator.close()


def _followers(work: Work, places: Sequence[Place | None], stop: threading.Event) -> list[Follower]:
    return [
        follow(given.name, given.layout, stop, csv_nulls=given.csv_nulls, place=place)
        for given, place in zip(work.inputs, places, strict=True)
    ]


def run(work: Work, output: Output, *, state: str | None) -> Counts:
    """Work on files as they grow, until all have ended or Ctrl-C."""
    start = time.perf_counter()
    output.check()
    saved = None if state is None else Saved.load(state, work.name, work.names)
    stop, news = threading.Event(), threading.Event()
    with _stopped_by_signals(stop, news):
        places = (None,) * len(work.inputs) if saved is None else saved.places
        try:
            followers = _followers(work, places, stop)
        except Stopped:
            return Counts(0, 0, 0, time.perf_counter() - start)
        operator, columns = work.make([follower.schema for follower in followers])
        if saved is not None:
            operator.restore(saved.snapshot)
        try:
            readings = [
                _Reading(follower, place, names, news, stop)
                for follower, place, names in zip(followers, places, columns, strict=True)
            ]
            feeders = [_Feeder(operator, number, one) for number, one in enumerate(readings)]
            with live_writer(output.name, output.layout, operator.schema) as writer:
                _feed_and_write(operator, feeders, writer, news, stop)
            stats = operator.stats()
            if state is not None:
                _save(state, work, operator, feeders)
        finally:
            operator.close()
    seconds = time.perf_counter() - start
    return Counts(stats["rows_in"], stats["rows_late"], stats["rows_out"], seconds)


def _feed_and_write(
    operator: Operator,
    feeders: list[_Feeder],
    writer: BatchWriter,
    news: threading.Event,
    stop: threading.Event,
) -> None:
    """Write what is final until all sources have ended, or until the stop."""
    for feeder, source in zip(feeders, operator.stats()["sources"], strict=True):
        if not source["closed"]:
            feeder.start()
    try:
        is_over = False
        while not is_over:
            news.clear()
            # Looked at before the poll, which then has all that was pushed.
            is_over = not any(feeder.is_alive() for feeder in feeders)
            for batch in iter(operator.poll, None):
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


def _save(state: str, work: Work, operator: Operator, feeders: list[_Feeder]) -> None:
    """Save where a stopped operator is; one that has ended cannot go on."""
    if all(source["closed"] for source in operator.stats()["sources"]):
        Saved.remove(state)
    else:
        places = tuple(feeder.place for feeder in feeders)
        Saved(operator.snapshot(), places).save(state, work.name, work.names)


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
