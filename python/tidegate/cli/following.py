"""Implements `--follow`: reads growing files, joins or aggregates them, and writes final rows."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType
from typing import Any

import pyarrow as pa

import tidegate
from tidegate.cli import aggregating, joining
from tidegate.cli.checkpoints import Checkpoints, Keeping, Kept
from tidegate.cli.feeding import PATIENCE_S, Feeder, Reading, flush
from tidegate.cli.progress import Progress
from tidegate.cli.tables import Input, Output, check_types
from tidegate.io.followers import Follower, Place, follow
from tidegate.io.growing import Stopped
from tidegate.io.live import Batches, live_writer
from tidegate.io.open_tables import advising
from tidegate.types import Length


@dataclass(frozen=True)
class Counts:
    """The numbers of rows read and written; `str` returns the last line that the command prints."""

    rows: int
    late: int
    out: int
    seconds: float

    def __str__(self) -> str:
        """Return the counts as text."""
        late = f" ({self.late:,} of them late)" if self.late else ""
        return f"{self.rows:,} rows in{late}, {self.out:,} rows out, {self.seconds:.2f} s"


Made = tuple[tidegate.Operator[Any], list[list[str]]]
"""An operator and the columns that it reads from each file."""


@dataclass(frozen=True)
class Work:
    """A job on growing files, and the name by which messages refer to it."""

    name: str
    inputs: Sequence[Input]
    times: Sequence[str]
    """The time column of each input."""

    make: Callable[[list[pa.Schema]], Made]


@dataclass(frozen=True)
class Manner:
    """How growing files are followed."""

    until_end: bool = False
    """Whether to stop at the current end of each file."""

    flush_after_s: float | None = None
    """The number of seconds without rows after which a file no longer holds back rows."""

    is_verbose: bool = False
    """Whether to show how the columns of CSV files are read."""

    shows_progress: bool = False
    """Whether to show a line of progress every ten seconds."""


def joined(job: joining.Job, lateness: Length | None, max_width: Length | None = None) -> Work:
    """Create the `Work` that joins two growing files."""

    def make(schemas: list[pa.Schema]) -> Made:
        left, right = schemas
        left_names, right_names = job.query.plan(left, right).needed
        made = job.query.operator(
            _selected(left, left_names),
            _selected(right, right_names),
            max_width=max_width,
            lateness=lateness,
            # Other processes may run on this machine.
            pin=False,
        )
        return made, [left_names, right_names]

    assert isinstance(job.right, Input)  # noqa: S101 - for mypy; the options exclude an index
    return Work("join", (job.left, job.right), _times(job.query.arguments["on"]), make)


def _times(on: Any) -> Sequence[str]:  # noqa: ANN401 - the argument `on` of any join
    """Return the time columns; rows with a start and an end are in the order of their starts."""
    return [one if isinstance(one, str) else one[0] for one in on]


def aggregated(job: aggregating.Job, lateness: Length | None) -> Work:
    """Create the `Work` that aggregates growing files; the first file determines the columns."""

    def make(schemas: list[pa.Schema]) -> Made:
        first, names = schemas[0], [given.name for given in job.streams]
        for name, schema in zip(names, schemas, strict=True):
            for field in first:
                _check_column(field, schema, name, names[0])
        windows = job.query.operator(first, sources=len(schemas), lateness=lateness)
        return windows, [first.names] * len(schemas)

    return Work("aggregation", job.streams, [job.query.on] * len(job.streams), make)


def _check_column(field: pa.Field, schema: pa.Schema, name: str, first: str) -> None:
    if field.name not in schema.names:
        message = f"{name}: there is no column `{field.name}`, which {first} has"
        raise tidegate.SchemaError(message)
    found = schema.field(field.name).type
    if found != field.type:
        message = (
            f"{name}: column `{field.name}` is {found}, but {field.type} in {first}; for CSV, "
            f"specify one type, as in --types {field.name}=string"
        )
        raise tidegate.SchemaError(message)


def _selected(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names], schema.metadata)


def plan(work: Work) -> str:
    """Describe how the files would be processed, reading only their first few rows."""
    followers = _followers(work, (None,) * len(work.inputs), threading.Event())
    with advising(follower.columns for follower in followers):
        operator, _ = work.make([follower.schema for follower in followers])
    try:
        return operator.explain()
    finally:
        operator.close()


def _followers(
    work: Work,
    places: Sequence[Place | None],
    stop: threading.Event,
    *,
    anew: bool = False,
    until_end: bool = False,
) -> list[Follower]:
    followers = [
        follow(
            given.name,
            given.layout,
            stop,
            csv=given.csv,
            place=place,
            anew=anew,
            until_end=until_end,
        )
        for given, place in zip(work.inputs, places, strict=True)
    ]
    of_csv = [follower.schema for follower in followers if follower.columns is not None]
    check_types(work.inputs, of_csv)
    for given, follower in zip(work.inputs, followers, strict=True):
        if follower.columns is None and given.csv.epoch_unit is not None:
            message = (
                f"{given.name}: --epoch-unit cannot convert the times of an Arrow stream with "
            )
            message += "--follow; write timestamps to the stream, or omit one of these options"
            raise tidegate.TidegateError(message)
    return followers


def _show_csv(followers: Sequence[Follower], *, shown: bool) -> None:
    """Show on standard error how the columns of CSV files are read."""
    for follower in followers if shown else ():
        if follower.columns is not None:
            sys.stderr.write(f"tidegate: {follower.name}: {follower.columns}\n")


def run(work: Work, output: Output, manner: Manner, *, keeping: Keeping | None) -> Counts:
    """Process files as they grow, until all of them have ended or Ctrl-C is pressed."""
    start = time.perf_counter()
    stop, news = threading.Event(), threading.Event()
    with ExitStack() as stack:
        kept: Kept | None = None
        places: Sequence[Place | None] = [None] * len(work.inputs)
        if keeping is None:
            output.check(work.inputs)
        else:
            kept = stack.enter_context(Kept.begun(keeping, work.name, work.inputs, output))
            places = kept.places
        stack.enter_context(_stopped_by_signals(stop, news))
        try:
            followers = _followers(
                work,
                places,
                stop,
                anew=kept is not None and kept.is_mended,
                until_end=manner.until_end,
            )
        except Stopped:
            return Counts(0, 0, 0, time.perf_counter() - start)
        _show_csv(followers, shown=manner.is_verbose)
        with advising(follower.columns for follower in followers):
            operator, columns = work.make([follower.schema for follower in followers])
        stack.callback(operator.close)
        readings = [
            Reading(follower, follower.begin, names, on, news, stop)
            for follower, names, on in zip(followers, columns, work.times, strict=True)
        ]
        feeders = [Feeder(operator, number, one) for number, one in enumerate(readings)]
        if kept is None:
            with live_writer(output.name, output.layout, operator.schema) as writer:
                _feed_and_write(operator, feeders, writer, (news, stop), manner)
        else:
            with kept.writing(operator, feeders) as checkpoints:
                _feed_and_write(operator, feeders, checkpoints, (news, stop), manner)
        stats = operator.stats()
    seconds = time.perf_counter() - start
    return Counts(stats["rows_in"], stats["rows_late"], stats["rows_out"], seconds)


def _feed_and_write(
    operator: tidegate.Operator[Any],
    feeders: list[Feeder],
    writer: Batches | Checkpoints,
    events: tuple[threading.Event, threading.Event],
    manner: Manner,
) -> None:
    """Write final rows until all sources have ended or a stop is requested."""
    news, stop = events
    progress = Progress(operator, feeders, shown=manner.shows_progress)
    try:
        for feeder, source in zip(feeders, operator.stats()["sources"], strict=True):
            if not source["closed"]:
                feeder.start()
        is_over = False
        while not is_over:
            news.clear()
            # Checked before the poll, so that the last poll sees all rows that were pushed.
            is_over = not any(feeder.is_alive() for feeder in feeders)
            if manner.flush_after_s is not None:
                flush(feeders, manner.flush_after_s)
            _write(operator, writer)
            _check(feeders)
            progress.show_if_due()
            if not is_over:
                news.wait(PATIENCE_S)
    finally:
        stop.set()
        for feeder in feeders:
            if feeder.is_alive():
                feeder.join()


def _write(operator: tidegate.Operator[Any], writer: Batches | Checkpoints) -> None:
    for batch in iter(operator.poll, None):
        writer.write_batch(batch)
    if isinstance(writer, Checkpoints):
        writer.write_if_due()


def _check(feeders: list[Feeder]) -> None:
    for feeder in feeders:
        if feeder.failure is not None:
            raise feeder.failure


def _stopping() -> list[signal.Signals]:
    """Return the signals that request a stop; if SIGHUP is ignored (nohup), it stays ignored."""
    wanted = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    return wanted


@contextmanager
def _stopped_by_signals(*events: threading.Event) -> Iterator[None]:
    """Set the events on the first stop signal, and let a second signal have its usual effect.

    A signal handler runs between two steps of the main thread, which may be holding an event's
    lock, for example at the end of a wait. A handler that sets the event itself would wait forever
    for this lock. Therefore, a separate thread sets the events, and the handler notifies this
    thread through a queue that does not need a lock.
    """
    told: SimpleQueue[int | None] = SimpleQueue()

    def set_events() -> None:
        if told.get() is not None:
            for event in events:
                event.set()

    def stop(number: int, _frame: FrameType | None) -> None:
        told.put(number)
        for known, handler in before.items():
            signal.signal(known, handler)

    before = {number: signal.getsignal(number) for number in _stopping()}
    setter = threading.Thread(target=set_events, name="tidegate-signal", daemon=True)
    setter.start()
    for known in before:
        signal.signal(known, stop)
    try:
        yield
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
        told.put(None)
        setter.join()
