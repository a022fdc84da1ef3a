"""Implements `tidegate merge`: reads rows as needed, and merges, writes and counts them."""

import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import pyarrow as pa
from tqdm import tqdm

import tidegate
from tidegate.cli.tables import Input, Output, check_types, csv_schemas, show_csv
from tidegate.io.open_tables import OpenTable, advising, of_one_type
from tidegate.types import Length


@dataclass(frozen=True)
class Job:
    """The files to merge, with the options of the merge."""

    inputs: Sequence[Input]
    on: str
    lateness: Length | None
    threads: int | None


@dataclass(frozen=True)
class Counts:
    """The numbers of files and rows merged; `str` returns the last line that the command prints."""

    files: int
    rows: int
    seconds: float

    def __str__(self) -> str:
        """Return the counts and the speed in rows per second."""
        speed = self.rows / max(self.seconds, 1e-9)
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        return f"{self.rows:,} rows of {files}, {self.seconds:.2f} s, {speed:,.0f} rows/s"


def run(job: Job, output: Output, *, show_progress: bool, verbose: bool) -> Counts:
    """Merge files into one file, one batch at a time."""
    start = time.perf_counter()
    output.check(job.inputs)
    if job.threads is not None:
        pa.set_cpu_count(job.threads)
    with _noting_signals() as signals:
        of_inputs = [(given, one) for given in job.inputs for one in given.streams()]
        streams = of_one_type([one for _, one in of_inputs])
        check_types(job.inputs, csv_schemas(streams))
        show_csv(streams, shown=verbose)
        pairs = zip(of_inputs, streams, strict=True)
        streams = [given.timed(stream) for (given, _), stream in pairs]
        try:
            rows = _merge(job, streams, output, show_progress=show_progress)
        except tidegate.TidegateError as error:
            # Arrow's C interface passes on only the message of a stream's exception.
            failures = (stream.failure for stream in streams if stream.failure is not None)
            named = _naming_files(error, streams)
            raise next(iter([*signals, *failures]), None) or named from error
    return Counts(len(streams), rows, time.perf_counter() - start)


def _merge(job: Job, streams: Sequence[OpenTable], output: Output, *, show_progress: bool) -> int:
    readers = [stream.batches() for stream in streams]
    rows = 0
    with (
        advising(streams),
        tidegate.merge_batches(
            readers, on=job.on, lateness=job.lateness, threads=job.threads
        ) as batches,
        output.writer(batches.schema) as writer,
        tqdm(desc="merge", unit=" rows", unit_scale=True, disable=not show_progress) as bar,
    ):
        known = [count for stream in streams if (count := stream.row_count()) is not None]
        bar.total = sum(known) if len(known) == len(streams) else None
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            bar.update(batch.num_rows)
    return rows


@contextmanager
def _noting_signals() -> Iterator[list[BaseException]]:
    """Collect exceptions raised by signal handlers, wherever the program is interrupted."""
    raised: list[BaseException] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    replaced = [number for number, handler in handlers.items() if callable(handler)]
    for number in replaced:
        signal.signal(number, note)
    try:
        yield raised
    finally:
        for number in replaced:
            signal.signal(number, handlers[number])


def _naming_files(
    error: tidegate.TidegateError, streams: Sequence[OpenTable]
) -> tidegate.TidegateError:
    """Replace stream numbers in a message with the names of the files."""

    def name(number: re.Match[str]) -> str:
        return streams[int(number[1])].label

    return type(error)(re.sub(r"streams\[(\d+)\]", name, str(error)))
