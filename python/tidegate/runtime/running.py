"""Runs operators in the background: a thread polls and passes the results to a sink."""

from __future__ import annotations

import atexit
import enum
import math
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidegate._tidegate import ClosedError, MemoryLimitError, Source, TidegateError
from tidegate.deferred import Deferred
from tidegate.runtime.stepping import Stop, Turns
from tidegate.types import Sink

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

Late = Callable[["pa.Table"], object]

# The interval at which a waiting thread checks for a stop request, in seconds.
_PATIENCE = 0.1

# The interval between two attempts to push into a full source, in seconds.
_ROOM = 0.001

# The instances whose threads may still be running.
_RUNNING: weakref.WeakSet[Running] = weakref.WeakSet()


def run(operator: Any, sink: Sink, late: Late | None) -> None:  # noqa: ANN401 - of Rust
    """Run an operator on this thread until all of its sources are closed."""
    running = Running(operator, sink, late)
    running._begin()  # noqa: SLF001 - defined in this module
    running._drive()  # noqa: SLF001 - defined in this module
    running.wait()


class Running:
    """An operator that runs on a thread; created by `Operator.running`.

    The thread polls as soon as results may be ready, and passes each batch to the sink. Other
    threads or the code in the block push the rows. A push waits while the memory limit leaves no
    room for its rows. At the end of the block, the sources are closed, and the last results are
    passed to the sink. If the block raises an exception, the thread stops, and the sources are left
    unchanged.

    If the sink or the operator raises an error, the thread ends. The error is raised again by
    `wait` and at the end of the block. Waiting pushes then raise `MemoryLimitError`, as they do if
    the block raises an error. Nothing is lost: the operator keeps the batch that the sink did not
    accept, and the late rows that `late` did not accept. Fix the sink or `late`, and then run the
    operator again.

    Example:
        >>> import pyarrow as pa
        >>> import tidegate as tg
        >>> found = []
        >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}), memory_limit=1_000_000)
        >>> with merge.running(found.append):
        ...     for ts in range(3):
        ...         merge.sources[0].push([{"ts": ts}])
        >>> sum(batch.num_rows for batch in found)
        3
    """

    def __init__(
        self,
        operator: Any,  # noqa: ANN401 - of Rust
        sink: Sink | Taker,
        late: Late | None,
        turns: Turns | None = None,
        ended: Callable[[], object] | None = None,
    ) -> None:
        if late is not None and not callable(late):
            message = f"late: expected a function that accepts a table, got {type(late).__name__}"
            raise TypeError(message)
        self._operator = operator
        self._late = late
        self._stopped = Stop()
        self._sink = sink_of(sink)
        self._turns = Turns() if turns is None else turns
        self._ended = ended
        self._error: BaseException | None = None
        self.failed_at = math.inf
        """The time of the error, in seconds on a monotonic clock."""
        # Whether waiting pushes end with an error when the thread ends.
        self._has_failed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._drive, name="tidegate-run", daemon=True)

    def __enter__(self) -> Self:
        if self._thread.ident is not None:
            message = "this block has already run; create another one with operator.running(sink)"
            raise TidegateError(message)
        self._begin()
        _RUNNING.add(self)
        try:
            self._thread.start()
        except BaseException:
            # The system refused the thread, or Ctrl-C arrived before the block was entered.
            self._give_up()
            if self._thread.ident is None:
                self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_whole = False
        try:
            if kind is None:
                for source in self._operator.sources:
                    source.close()
                self.wait()
                is_whole = True
        finally:
            if not is_whole:
                self._give_up()
            self.stop()
        if self._error is not None:
            # The exception of the block may be a consequence of this error.
            raise self._error from value

    @property
    def error(self) -> BaseException | None:
        """The error from the sink or the operator that ended the thread, or None.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> running = tg.Merge(pa.schema({"ts": pa.int64()})).running(print)
            >>> running.error is None
            True
        """
        return self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all sources are closed and the sink has all results, or the thread is stopped.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> with merge.running(print) as running:
            ...     running.wait(timeout=0.01)
            False

        Args:
            timeout: The maximum number of seconds to wait. None sets no limit.

        Returns:
            Whether the thread has ended.

        Raises:
            ClosedError: The operator is running in the process that this one was forked from.
            Exception: Any exception that the sink or the operator has raised.
        """
        if self._process != os.getpid():
            message = "the operator is running in the process that this one was forked from"
            raise ClosedError(message)
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop the thread after the current batch.

        The sources are unchanged. Results that the sink has not received remain in the operator,
        and are available to later polls, snapshots and runs.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> with merge.running(print) as running:
            ...     running.stop()
        """
        self._stopped.set()
        is_here = self._process == os.getpid() and self._thread is not threading.current_thread()
        if is_here and self._thread.ident is not None:
            self._thread.join()

    def _give_up(self) -> None:
        """Stop the thread. Waiting pushes fail, because polling stops."""
        self._has_failed = True
        self._stopped.set()

    def _begin(self) -> None:
        fetches_late = self._late is not None
        if self._operator._set_driven(is_driven=True, fetches_late=fetches_late):  # noqa: SLF001 - of Rust
            message = "the operator is already running; wait until it has ended, or stop it"
            raise TidegateError(message)

    def _drive(self) -> None:
        try:
            self._give_all()
        except BaseException as error:  # noqa: BLE001 - `wait` raises it
            self.failed_at = time.perf_counter()
            self._error = error
            self._has_failed = True
        finally:
            self._end()
            if self._ended is not None:
                self._ended()

    def _end(self) -> None:
        self._operator._set_driven(is_driven=False, has_failed=self._has_failed)  # noqa: SLF001 - of Rust

    def _give_all(self) -> None:
        operator = self._operator
        while not self._stopped.is_set():
            is_ready = operator._is_ready_within(_PATIENCE)  # noqa: SLF001 - of Rust
            if self._late is not None:
                _hand_late(operator, self._late)
            with self._turns.step(self._stopped) as goes_on:
                if not goes_on:
                    return
                step = hand_on(operator, self._sink, is_ready=is_ready)
            if step is Step.END:
                return
            if step is Step.NO_ROOM:
                time.sleep(_ROOM)


def _hand_late(operator: Any, late: Late) -> None:  # noqa: ANN401 - of Rust
    """Pass the late rows to a function; if it raises an error, the operator keeps the rows."""
    were_taken = False
    try:
        if (rows := operator._lend_late()).num_rows:  # noqa: SLF001 - of Rust
            late(rows)
        were_taken = True
    finally:
        operator._settle_late(were_taken=were_taken)  # noqa: SLF001 - of Rust


class Step(enum.Enum):
    """The outcome of passing the next batch to a sink."""

    WENT = enum.auto()
    NOTHING = enum.auto()
    NO_ROOM = enum.auto()
    END = enum.auto()


def hand_on(operator: Any, sink: Taker, *, is_ready: bool | None) -> Step:  # noqa: ANN401 - of Rust
    """Pass the next batch to a sink if one is ready, or signal the end."""
    batch = operator.poll() if is_ready else None
    if batch is None:
        if is_ready is False:
            return Step.END if sink.end() else Step.NO_ROOM
        sink.promise(operator)
        return Step.NOTHING
    has_taken = False
    try:
        has_taken = sink.give(batch)
    finally:
        if not has_taken:
            operator._take_back(batch)  # noqa: SLF001 - of Rust
    return Step.WENT if has_taken else Step.NO_ROOM


class Taker:
    """A sink that passes batches to a function."""

    def __init__(self, take: Callable[[pa.RecordBatch], object]) -> None:
        self.take = take

    def give(self, batch: pa.RecordBatch) -> bool:
        """Pass a batch to the sink, and return whether the sink had room for it."""
        self.take(batch)
        return True

    def promise(self, operator: Any) -> None:  # noqa: ANN401 - of Rust
        """Notify the sink that nothing is ready, so that it can update its promise."""

    def end(self) -> bool:
        """Signal the end of the results, and return whether the sink had room for the signal."""
        return True


class _Queue(Taker):
    """A queue-backed sink. The queue may be full at times. None marks the end."""

    def __init__(self, sink: queue.Queue[Any]) -> None:
        self.queue = sink

    def give(self, batch: pa.RecordBatch | None) -> bool:
        try:
            self.queue.put_nowait(batch)
        except queue.Full:
            return False
        return True

    def end(self) -> bool:
        return self.give(None)


class Feed(Taker):
    """A sink that pushes into another operator's source, which may have no room at times."""

    def __init__(self, source: Source) -> None:
        self.source: Any = source

    def give(self, batch: pa.RecordBatch) -> bool:
        """Push the batch into the source unless the memory limit leaves no room for it."""
        try:
            self.source.push(batch, block=False)
        except MemoryLimitError:
            if not self.source._is_full():  # noqa: SLF001 - of Rust
                raise
            return False
        return True

    def end(self) -> bool:
        """Close the source."""
        self.source.close()
        return True


def sink_of(sink: Any) -> Taker:  # noqa: ANN401 - any of several
    """Convert a user-supplied sink to a `Taker`."""
    if isinstance(sink, Taker):
        return sink
    if isinstance(sink, Source):
        return Feed(sink)
    if isinstance(sink, queue.Queue):
        return _Queue(sink)
    if callable(write := getattr(sink, "write_batch", None)):
        return Taker(write)
    if callable(sink):
        return Taker(sink)
    message = (
        "sink: expected a function that accepts a record batch, a queue.Queue, "
        "a writer with `write_batch` such as pyarrow.parquet.ParquetWriter, "
        "or a source of another operator, "
        f"got {type(sink).__name__}"
    )
    raise TypeError(message)


@atexit.register
def _stop_all() -> None:
    # Python must not exit while threads are in the native module.
    for running in list(_RUNNING):
        running.stop()
