"""Chains of operators, in which one operator's results feed the next, with a shared snapshot."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from tidegate._tidegate import Operator, Source, StateError, TidegateError
from tidegate.deferred import Deferred
from tidegate.runtime.running import Feed, Running, Step, hand_on
from tidegate.runtime.stepping import Turns
from tidegate.types import Sink

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

Fed: TypeAlias = Operator[Any] | tuple[Operator[Any], Literal["later", "earlier"]]

# The interval at which a waiting thread checks the other threads, in seconds.
_PATIENCE = 0.1

# Snapshots begin with these bytes and a version. They are followed by the links as text and the
# states of the operators, each with its length, and by a checksum of all preceding bytes.
_MAGIC = b"TIDECHAIN"
_VERSION = 1
_LENGTH = struct.Struct("<Q")
_HEAD = struct.Struct(f"<{len(_MAGIC)}sH")
_SUM = struct.Struct("<I")


class Chain:
    """A chain of operators in which one operator's results feed a source of another.

    Each source in `feeds` receives the results of the operator that feeds it. The source's time
    column contains the times of these results. Watermarks are passed along: the last operator emits
    a row as soon as the outer sources' watermarks guarantee that the row is final. A fed source
    needs no `lateness`. The preceding operator's query determines how far out of order times can
    be, and no row is late. A fed source closes when the preceding operator ends.

    As with a single operator, the results depend only on the rows from the outer sources. The
    results are the same as those of successive calls on tables, each of which processes the
    previous result. If an operator has `ordered=False`, it passes on rows with equal times in any
    order.

    `poll` does all the work on the calling thread. In a `running` block, each operator has its own
    thread. `snapshot` returns one state that covers all operators and the rows in transit between
    them. The outer sources are those that no operator feeds. Rows are pushed into the outer sources
    in the same way as without a chain.

    Example:
        Each trade with the quotes of the 5 time units before it, counted in windows of 20 time
        units:

        >>> import pyarrow as pa
        >>> import tidegate as tg
        >>> trades = pa.schema([("ts", pa.int64()), ("price", pa.float64())])
        >>> quotes = pa.schema([("ts", pa.int64()), ("bid", pa.float64())])
        >>> pairs = tg.IntervalJoin(trades, quotes, on="ts", lower=-5, upper=0)
        >>> count = tg.Aggregate(pairs.schema, on="ts", size=20, aggs={"pairs": tg.agg.count()})
        >>> chain = tg.Chain(count, {count.sources[0]: pairs})
        >>> left, right = pairs.sources
        >>> left.push([(10, 1.0), (30, 1.1)])
        >>> right.push([(8, 0.9), (9, 1.0), (28, 1.1)])
        >>> right.advance(31)
        >>> chain.poll().to_pylist()
        [{'window_start': 0, 'window_end': 20, 'pairs': 2}]

        With a column for the later time of each pair:

        >>> pairs = tg.IntervalJoin(trades, quotes, on="ts", lower=-5, upper=5)
        >>> schema = pairs.schema.append(pa.field("seen", pa.int64()))
        >>> count = tg.Aggregate(schema, on="seen", size=20, aggs={"pairs": tg.agg.count()})
        >>> chain = tg.Chain(count, {count.sources[0]: (pairs, "later")})

    Args:
        last: The operator whose results the chain returns.
        feeds: A mapping from each fed source to the operator that feeds it. The source's time
            column must be one of the times in that operator's results: `ts` or `ts_right` from a
            join, or the start or end of a window. To use the later or earlier time of a pair, pass
            a tuple of the operator and `"later"` or `"earlier"`. The source's time column is then
            computed from both times, and the results must not already contain a column with that
            name.

    Raises:
        SchemaError: The source's time column is not one of the time columns in the results.
        TidegateError: A source is already in use, or an operator feeds two sources, itself or no
            source. The error is also raised if times are unbounded, because no row would ever be
            final.
        TypeError: An argument is not an operator or not a source.
    """

    def __init__(self, last: Operator[Any], feeds: Mapping[Source, Fed]) -> None:
        if not isinstance(last, Operator):
            message = f"last: expected an operator, got {type(last).__name__}"
            raise TypeError(message)
        if not feeds:
            message = (
                "feeds: expected a source and the operator that feeds it; "
                "poll a single operator directly"
            )
            raise TidegateError(message)
        self._connect(last, feeds)

    def _connect(self, last: Operator[Any], feeds: Mapping[Source, Fed]) -> None:
        given = [_given(source, fed) for source, fed in feeds.items()]
        self._operators = _in_order(last, given)
        self._links = [
            _Link(operator, source, of)
            for operator in self._operators
            for source, before, of in given
            if before is operator
        ]
        self._turns = Turns()
        self._shape = "; ".join(self._shaped())

    @property
    def operators(self) -> list[Operator[Any]]:
        """The operators, each listed after all operators that feed it.

        The last operator returns the results.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> chain = tg.Chain(count, {count.sources[0]: merge})
            >>> [type(operator).__name__ for operator in chain.operators]
            ['Merge', 'Aggregate']
        """
        return list(self._operators)

    def poll(self) -> pa.RecordBatch | None:
        """Return the next final batch of the last operator, or None.

        The call does not wait for sources. Before `poll` returns, batches are passed from operator
        to operator.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> chain = tg.Chain(count, {count.sources[0]: merge})
            >>> merge.sources[0].push([(0,), (1,), (2,)])
            >>> chain.poll()["n"].to_pylist()
            [2]

        Raises:
            MemoryLimitError: A batch between two operators is too large for a `memory_limit`.
            TidegateError: An operator in the chain has failed, or one of its sources was abandoned.
        """
        with self._turns.alone():
            operator: Any
            for operator in self._operators:
                operator._go_on()  # noqa: SLF001 - of Rust
            while True:
                went = [link.go_on() for link in self._links]
                batch: pa.RecordBatch | None = self._operators[-1].poll()
                if batch is not None or not any(went):
                    return batch

    def running(self, sink: Sink) -> RunningChain:
        """Run each operator on its own thread, and pass the results to a sink.

        At the end of the block, the outer sources are closed, and the last results are passed to
        the sink. If the block raises an exception, the threads stop, and the sources are left
        unchanged.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> found = []
            >>> with tg.Chain(count, {count.sources[0]: merge}).running(found.append):
            ...     merge.sources[0].push([(0,), (1,), (2,)])
            >>> [n for batch in found for n in batch["n"].to_pylist()]
            [2, 1]

        Args:
            sink: Where results go. A function is called with each record batch. A `queue.Queue`
                receives the batches, followed by None. A writer with a `write_batch` method, such
                as `pyarrow.parquet.ParquetWriter`, is not closed. A source of another operator is
                closed at the end.

        Returns:
            A context manager that runs the chain.

        Raises:
            TypeError: The sink has an unsupported type.
        """
        return RunningChain(self._operators, self._links, sink, self._turns)

    def snapshot(self) -> bytes:
        """Return the state of all operators, and the rows in transit between them, as bytes.

        While the snapshot is being taken, no batch is in transit between two operators or to the
        sink. The batches that the sink has received are exactly those that the snapshot records as
        returned. A sink can itself take a snapshot. In such a snapshot, the rows that the sink has
        received count as returned.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> def made() -> tuple[tg.Merge, tg.Chain]:
            ...     merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            ...     count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            ...     return merge, tg.Chain(count, {count.sources[0]: merge})
            >>> merge, chain = made()
            >>> merge.sources[0].push([(0,), (1,)])
            >>> saved = chain.snapshot()
            >>> merge, again = made()
            >>> again.restore(saved)
            >>> merge.sources[0].push([(2,)])
            >>> again.poll()["n"].to_pylist()
            [2]

        Raises:
            StateError: The sink and another thread take snapshots at the same time and would wait
                for each other. The error is also raised if a signal handler takes a snapshot during
                a call to the chain.
            ClosedError: The chain is closed, or belongs to a parent process.
            TidegateError: An operator has failed.
        """
        with self._turns.alone():
            states = [operator.snapshot() for operator in self._operators]
        parts = [_HEAD.pack(_MAGIC, _VERSION)]
        for part in (self._shape.encode(), *states):
            parts += [_LENGTH.pack(len(part)), part]
        body = b"".join(parts)
        return body + _SUM.pack(zlib.crc32(body))

    def restore(self, snapshot: bytes) -> None:
        """Resume from a snapshot of a chain with the same operators and feeds.

        No rows may have been pushed before this call. If an operator rejects its part of the state,
        all operators are closed, because the parts belong together.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> tg.Chain(count, {count.sources[0]: merge}).restore(b"TIDE")
            Traceback (most recent call last):
            tidegate.StateError: the snapshot is damaged or was not taken from a chain: it is 4...

        Args:
            snapshot: The bytes that `snapshot` returned.

        Raises:
            StateError: The snapshot is damaged, belongs to another chain, or has an unsupported
                version, or an operator is already in use.
            MemoryLimitError: A `memory_limit` leaves no room for the state.
        """
        text, *states = _parts(snapshot)
        if text.decode(errors="replace") != self._shape or len(states) != len(self._operators):
            message = (
                "the snapshot is of another chain: "
                f"({text.decode(errors='replace')[:400]}), not ({self._shape}); "
                "create the same chain as when the snapshot was taken"
            )
            raise StateError(message)
        with self._turns.alone():
            try:
                for operator, state in zip(self._operators, states, strict=True):
                    operator.restore(state)
            except BaseException:
                for operator in self._operators:
                    operator.close()
                raise

    def _shaped(self) -> Iterator[str]:
        yield ", ".join(type(operator).__name__ for operator in self._operators)
        for link in self._links:
            before = self._operators.index(link.operator)
            behind = next(
                number
                for number, operator in enumerate(self._operators)
                if link.source in operator.sources
            )
            yield f"{before} feeds source {link.source.number} of {behind} by {link.feed.time}"


class RunningChain:
    """A chain that runs on threads; created by `Chain.running`."""

    def __init__(
        self, operators: list[Operator[Any]], links: list[_Link], sink: Sink, turns: Turns
    ) -> None:
        feeds = {id(link.operator): link.feed for link in links}
        fed = [link.source for link in links]
        self._outer = [
            source for operator in operators for source in operator.sources if source not in fed
        ]
        self._all = [
            Running(operator, feeds.get(id(operator), sink), None, turns, self._look)
            for operator in operators
        ]

    def __enter__(self) -> Self:
        begun = 0
        try:
            for running in self._all:
                running.__enter__()
                begun += 1
        finally:
            if begun < len(self._all):
                self.stop()
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
                for source in self._outer:
                    source.close()
                self.wait()
                is_whole = True
        finally:
            if not is_whole:
                self._give_up()
            self.stop()
        if (error := self.error) is not None:
            # The exception of the block may be a consequence of this error.
            raise error from value

    @property
    def error(self) -> BaseException | None:
        """The error from the sink or from an operator that ended the chain, or None.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> running = tg.Chain(count, {count.sources[0]: merge}).running(print)
            >>> running.error is None
            True
        """
        # Later errors may be consequences of the first one, after which operators are not polled.
        return min(self._all, key=lambda running: running.failed_at).error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all sources are closed and the sink has all results, or the chain is stopped.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> with tg.Chain(count, {count.sources[0]: merge}).running(print) as running:
            ...     running.wait(timeout=0.01)
            False

        Args:
            timeout: The maximum number of seconds to wait. None sets no limit.

        Returns:
            Whether all threads have ended.

        Raises:
            ClosedError: The chain runs in the process that this one was forked from.
            Exception: Any exception that the sink or an operator has raised.
        """
        # A thread that fails stops all other threads, so all threads end.
        until = None if timeout is None else time.monotonic() + timeout
        for running in self._all:
            rest = None if until is None else max(0.0, until - time.monotonic())
            if not running.wait(rest):
                return False
        if (error := self.error) is not None:
            raise error
        return True

    def stop(self) -> None:
        """Stop the threads after the current batches.

        Sources and rows are left unchanged, and are available to later polls, snapshots and runs.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> with tg.Chain(count, {count.sources[0]: merge}).running(print) as running:
            ...     running.stop()
        """
        for running in self._all:
            running._stopped.set()  # noqa: SLF001 - stop all of them before waiting for any
        for running in self._all:
            running.stop()

    def _look(self) -> None:
        """Stop all threads if one of them has failed."""
        if self.error is not None:
            self._give_up()

    def _give_up(self) -> None:
        """Stop all threads, but do not wait: the current thread may be one of them."""
        for running in self._all:
            running._give_up()  # noqa: SLF001 - as at the end of one


class _ChainFeed(Feed):
    """A source that receives the results and promises of an operator."""

    def __init__(self, source: Source, operator: Any, of: str | None) -> None:  # noqa: ANN401 - of Rust
        super().__init__(source)
        self.name, self.columns = operator._feed(source, of)  # noqa: SLF001 - of Rust
        self.time = of or self.name

    def give(self, batch: pa.RecordBatch) -> bool:
        return super().give(self.with_time(batch) if self.columns else batch)

    def with_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with an additional column for the later or earlier time."""
        import pyarrow.compute as pc  # noqa: PLC0415 - only if it is needed

        made = pc.min_element_wise if self.time == "earlier" else pc.max_element_wise
        times = [batch[name] for name in self.columns]
        chosen = made(*map(_without_zone, times))
        zone = getattr(times[0].type, "tz", None)
        if zone is not None:
            import pyarrow as pa  # noqa: PLC0415 - as above

            chosen = chosen.view(pa.timestamp(chosen.type.unit, zone))
        return batch.append_column(self.name, chosen)

    def promise(self, operator: Any) -> None:  # noqa: ANN401 - of Rust
        operator._promise(self.source)  # noqa: SLF001 - of Rust


def _without_zone(times: Any) -> Any:  # noqa: ANN401 - an array
    """Drop the time zone but keep the instants; pyarrow cannot compare zoned times."""
    import pyarrow as pa  # noqa: PLC0415 - only if it is needed

    has_zone = getattr(times.type, "tz", None) is not None
    return times.view(pa.timestamp(times.type.unit)) if has_zone else times


class _Link:
    """An operator and the source that it feeds."""

    def __init__(self, operator: Operator[Any], source: Source, of: str | None) -> None:
        self.operator: Any = operator
        self.source = source
        self.feed = _ChainFeed(source, operator, of)

    def go_on(self) -> bool:
        """Pass on all batches that are ready; return whether any were ready."""
        went = False
        while True:
            is_ready = self.operator._is_ready_within(0.0)  # noqa: SLF001 - of Rust
            if hand_on(self.operator, self.feed, is_ready=is_ready) is not Step.WENT:
                return went
            went = True


def _given(source: object, fed: Fed) -> tuple[Source, Operator[Any], str | None]:
    operator, of = fed if isinstance(fed, tuple) and len(fed) == 2 else (fed, None)  # noqa: PLR2004
    if not isinstance(source, Source):
        message = (
            f"feeds: expected a source, as in {{operator.sources[0]: before}}, got "
            f"{type(source).__name__}"
        )
        raise TypeError(message)
    if not isinstance(operator, Operator):
        message = (
            "feeds: expected an operator that feeds a source, or a pair of it and "
            f"'later' or 'earlier', got {type(operator).__name__}"
        )
        raise TypeError(message)
    return source, operator, of


def _in_order(
    last: Operator[Any], given: list[tuple[Source, Operator[Any], str | None]]
) -> list[Operator[Any]]:
    """Return the operators in topological order: each one follows all operators that feed it."""
    ordered: list[Operator[Any]] = []
    entered: list[Operator[Any]] = []

    def enter(operator: Operator[Any]) -> None:
        if any(one is operator for one in entered):
            message = (
                "feeds: an operator feeds two sources or itself; "
                "use a separate operator for each source"
            )
            raise TidegateError(message)
        entered.append(operator)
        for source in operator.sources:
            for fed, before, _ in given:
                if fed == source:
                    enter(before)
        ordered.append(operator)

    enter(last)
    if len(ordered) != len(given) + 1:
        message = (
            "feeds: a source does not belong to any operator in the chain; "
            "each operator except the last must feed a source of another operator"
        )
        raise TidegateError(message)
    return ordered


def _check(why: str, *, is_whole: bool) -> None:
    if not is_whole:
        message = f"the snapshot is damaged or was not taken from a chain: {why}"
        raise StateError(message)


def _parts(snapshot: bytes) -> list[bytes]:
    """Split an intact snapshot into the text of the links and the operators' states."""
    size = len(snapshot)
    has_head = size >= _HEAD.size + _SUM.size
    _check(f"it is {size} bytes long, which is less than its header needs", is_whole=has_head)
    magic, version = _HEAD.unpack_from(snapshot)
    _check("it does not begin like a chain snapshot", is_whole=magic == _MAGIC)
    body, (checksum,) = snapshot[: -_SUM.size], _SUM.unpack(snapshot[-_SUM.size :])
    _check("its checksum does not match its content", is_whole=zlib.crc32(body) == checksum)
    if version != _VERSION:
        message = (
            f"the snapshot has version {version}, "
            f"but this version of tidegate reads version {_VERSION} of chain snapshots; "
            "use the version of tidegate that wrote it"
        )
        raise StateError(message)
    parts, at = [], _HEAD.size
    while at < len(body):
        _check("a part has no length", is_whole=len(body) - at >= _LENGTH.size)
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        _check("a part is longer than the remaining bytes", is_whole=length <= len(body) - at)
        parts.append(body[at : at + length])
        at += length
    _check("it has no parts", is_whole=bool(parts))
    return parts
