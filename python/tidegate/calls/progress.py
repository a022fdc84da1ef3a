"""Reports the progress of a call to a function, or shows it as a progress bar.

A call that reports its progress builds its result batch by batch. The rows and their order do not
change. After each batch, the reader's statistics show how far the call has progressed.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.types import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from typing import Self

    import pyarrow as pa

    Report = Callable[[Progress], object]


def reporting(progress: Any, function: str) -> Reporting | None:  # noqa: ANN401 - any argument
    """Return an object that reports a call's progress, or None if `progress` is False.

    Raises:
        TypeError: The argument is neither a flag nor a function.
        TidegateError: A bar is requested, but no library can show one.
    """
    if progress is False:
        return None
    if progress is True:
        return Reporting(function, None)
    if not callable(progress):
        message = f"progress: expected True, False or a function, got {progress!r:.80}"
        raise TypeError(message)
    return Reporting(function, progress)


class Reporting:
    """Reports the progress of one call.

    Args:
        function: The name of the call's function.
        report: The function to call, or None to show a bar.
    """

    def __init__(self, function: str, report: Report | None) -> None:
        self._function = function
        self._report: AbstractContextManager[Report] = (
            _bar(function) if report is None else nullcontext(report)
        )

    def table(self, reader: Any, limit: int | None = None) -> pa.Table:  # noqa: ANN401 - of Rust
        """Collect all batches of a reader into one table, which may use half of a memory limit."""
        # Imported late, because it imports pyarrow.
        from tidegate.bounded import results  # noqa: PLC0415

        reported = _Reported(reader, self)
        name = f"{self._function}_batches"
        return results.table(reported, _NO_LIMIT if limit is None else limit, name)

    def batches(self, reader: Any) -> _tidegate.BatchReader[Any]:  # noqa: ANN401 - of Rust
        """Return a reader that reports its progress whenever a batch is read."""
        reported = _Reported(reader, self)
        return _tidegate.reader_of(reported, f"{self._function}_batches")

    def each(self, reader: Any) -> Generator[pa.RecordBatch]:  # noqa: ANN401 - of Rust
        """Yield the batches of a reader, and report the progress after each of them."""
        with ExitStack() as stack:
            stack.enter_context(reader)
            report = stack.enter_context(self._report)
            rows = 0
            report(_progress(reader.stats(), rows))
            for batch in reader:
                rows += batch.num_rows
                report(_progress(reader.stats(), rows))
                yield batch
            last = _progress(reader.stats(), rows)
            report(last._replace(done=last.total or last.done))


# Half of this limit is more than any table needs.
_NO_LIMIT = 1 << 64


def _progress(stats: dict[str, Any], rows: int) -> Progress:
    """Return the progress that a reader's statistics show."""
    if "left_rows_done" in stats:
        return Progress(stats["left_rows_done"], stats["left_rows"] or None, rows)
    return Progress(stats.get("rows_in", 0), None, rows)


class _Reported:
    """A reader that also reports progress. It can be read in place of the original reader."""

    def __init__(self, reader: Any, reporting: Reporting) -> None:  # noqa: ANN401 - of Rust
        self.schema = reader.schema
        self._reader = reader
        self._batches = reporting.each(reader)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stats(self) -> dict[str, Any]:
        """Return the statistics of the reader."""
        found: dict[str, Any] = self._reader.stats()
        return found

    def close(self) -> None:
        """Stop the call, and remove the progress bar."""
        self._batches.close()
        self._reader.close()


def _bar(function: str) -> AbstractContextManager[Report]:
    """Return a context manager that yields a function for updating a progress bar."""
    if find_spec("tqdm"):
        return _TqdmBar(function)
    if find_spec("rich"):
        return _RichBar(function)
    message = "progress: a bar needs tqdm or rich; install one of them, or pass a function that is "
    message += "called with the progress, such as progress=print"
    raise _tidegate.TidegateError(message)


class _TqdmBar:
    """A bar of tqdm."""

    def __init__(self, function: str) -> None:
        from tqdm.auto import tqdm  # noqa: PLC0415 - only bars need it

        self._bar = tqdm(desc=function, unit=" rows", unit_scale=True)

    def __enter__(self) -> Report:
        return self._update

    def _update(self, progress: Progress) -> None:
        self._bar.total = progress.total
        self._bar.set_postfix_str(f"{progress.rows:,} rows out", refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class _RichBar:
    """A bar of rich."""

    def __init__(self, function: str) -> None:
        from rich.progress import Progress as Bars  # noqa: PLC0415 - only bars need it

        self._bars = Bars()
        self._task = self._bars.add_task(function, total=None)

    def __enter__(self) -> Report:
        self._bars.start()
        return self._update

    def _update(self, progress: Progress) -> None:
        self._bars.update(self._task, completed=progress.done, total=progress.total)

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
