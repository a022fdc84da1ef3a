"""Operators behind each other: one takes the results of another, and one snapshot has all."""

from __future__ import annotations

import struct
import time
import zlib
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from tidegate._tidegate import Operator, Source, StateError, TidegateError
from tidegate.runtime.running import Feed, Running, Step, hand_on
from tidegate.runtime.stepping import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    import pyarrow as pa

    from tidegate.types import Sink

    Fed: TypeAlias = "Operator[Any] | tuple[Operator[Any], Literal['later', 'earlier']]"

# Seconds after which a thread that waits looks at the others.
_PATIENCE = 0.1

# Snapshots begin with this and a version. Then follow the links as text and the operators' states,
# each with its length, and a checksum of all before it.
_MAGIC = b"TIDECHAIN"
_VERSION = 1
_LENGTH = struct.Struct("<Q")
_HEAD = struct.Struct(f"<{len(_MAGIC)}sH")
_SUM = struct.Struct("<I")


class Chain:
    """Operators behind each other: one takes the results of another, down to a last one.

    Each source of `feeds` takes the results of its operator, with the time of the column that is
    its own time column. Watermarks go through: a row comes from the last operator as soon as the
    outer sources have promised that it is final. The fed source needs no `lateness`: how far times
    are out of order follows from the query before it, and no row is late there. Its end is the end
    of the operator before it.

    The rows depend on the rows of the outer sources alone, as with one operator. They are
    the rows of the calls on tables, one on the result of another. If an operator has
    `ordered=False`, the rows that it feeds come in any order among rows of one time.

    `poll` does all the work on the calling thread. In a block of `running`, each operator has a
    thread. `snapshot` gives one state of all operators and of the rows between them. Rows are
    pushed into the outer sources, the ones that nothing feeds, as without a chain.

    Example:
        Pairs of a trade and a quote of the 5 before it, counted in windows of 20:

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

        The time of a pair is that of its later row, if a column of that time is asked for:

        >>> pairs = tg.IntervalJoin(trades, quotes, on="ts", lower=-5, upper=5)
        >>> schema = pairs.schema.append(pa.field("seen", pa.int64()))
        >>> count = tg.Aggregate(schema, on="seen", size=20, aggs={"pairs": tg.agg.count()})
        >>> chain = tg.Chain(count, {count.sources[0]: (pairs, "later")})

    Args:
        last: The operator whose results the chain gives.
        feeds: For each source that is fed, the operator before it. Its results have the source's
            time column as a time: `ts` or `ts_right` of a join, or the start or the end of a
            window. Or a pair of the operator and `"later"` or `"earlier"`: the source's time
            column, which the results do not have, is made of both times.

    Raises:
        SchemaError: The source's time column is none of the times of the results.
        TidegateError: A source is in use already; an operator is before two sources, before itself
            or before none; or its times have no bound, so that no row would be final.
        TypeError: An argument is no operator, or no source.
    """

    def __init__(self, last: Operator[Any], feeds: Mapping[Source, Fed]) -> None:
        if not isinstance(last, Operator):
            message = f"last: expected an operator, got {type(last).__name__}"
            raise TypeError(message)
        if not feeds:
            message = (
                "feeds: expected a source and the operator before it; poll one operator by itself"
            )
            raise TidegateError(message)
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
        """The operators, each behind all operators that feed it; the last one is the chain's.

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
        """Return the next batch of the last operator that is final, or None.

        Does not wait for sources. Batches go from operator to operator before.

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
            MemoryLimitError: A batch between two operators can never fit a `memory_limit`.
            TidegateError: An operator of the chain has failed, or a source of it was abandoned.
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
        """Drive all operators by threads of their own, and give the results to a sink.

        At the end of the block the outer sources are closed, and the last results are given to the
        sink. If the block raises, the threads stop, and the sources stay as they are.

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
            sink: A function of a record batch; a `queue.Queue`, which gets None at the end; a
                writer with `write_batch`, such as `pyarrow.parquet.ParquetWriter`, which is not
                closed; or a source of another operator, which is closed at the end.

        Returns:
            The chain in work, as a context manager.

        Raises:
            TypeError: The sink is none of these.
        """
        return RunningChain(self._operators, self._links, sink, self._turns)

    def snapshot(self) -> bytes:
        """Return the state of all operators, and of the rows between them, as bytes.

        No batch is on its way between two operators meanwhile, and none at the sink: the batches
        that the sink has been given are the ones that the snapshot counts as handed out. A sink may
        take a snapshot itself, behind the rows that it was given.

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
            StateError: The sink takes a snapshot while another thread takes one, and each would
                wait for the other; or a signal handler takes one within a call to the chain.
            ClosedError: The chain is closed, or of a parent process.
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
        """Go on from a snapshot of a chain of the same operators and feeds.

        No row may have been pushed before. If an operator refuses its part, all operators are
        closed, since the parts belong together.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> tg.Chain(count, {count.sources[0]: merge}).restore(b"TIDE")
            Traceback (most recent call last):
            tidegate.StateError: the snapshot is damaged or of no chain: it has 4 bytes, and its...

        Args:
            snapshot: The bytes that `snapshot` returned.

        Raises:
            StateError: The snapshot is damaged, of another chain, or of a later version; or an
                operator is in use already.
            MemoryLimitError: A `memory_limit` has no room for the state.
        """
        text, *states = _parts(snapshot)
        if text.decode(errors="replace") != self._shape or len(states) != len(self._operators):
            message = (
                "the snapshot is of another chain: "
                f"({text.decode(errors='replace')[:400]}), not ({self._shape}); make the chain as "
                "it was when the snapshot was taken"
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
    """A chain that threads drive, as `Chain.running` makes it."""

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
            # What the block has raised may follow from it.
            raise error from value

    @property
    def error(self) -> BaseException | None:
        """The error of the sink or of an operator that has ended the chain, or None.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> running = tg.Chain(count, {count.sources[0]: merge}).running(print)
            >>> running.error is None
            True
        """
        # Later errors may be consequences of the first: nothing polls the operator behind any more.
        return min(self._all, key=lambda running: running.failed_at).error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the sink has all results of closed sources, or the chain was stopped.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> with tg.Chain(count, {count.sources[0]: merge}).running(print) as running:
            ...     running.wait(timeout=0.01)
            False

        Args:
            timeout: The most seconds to wait. None sets no limit.

        Returns:
            Whether all threads have ended.

        Raises:
            ClosedError: The chain runs in the process that this one was forked from.
            Exception: Whatever the sink or an operator has raised.
        """
        # A thread that fails stops all others, so that each of them ends.
        until = None if timeout is None else time.monotonic() + timeout
        for running in self._all:
            rest = None if until is None else max(0.0, until - time.monotonic())
            if not running.wait(rest):
                return False
        if (error := self.error) is not None:
            raise error
        return True

    def stop(self) -> None:
        """End the threads after the batches that are at work.

        Sources stay as they are, and rows are where they are, for polls, a snapshot or another run.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> merge = tg.Merge(pa.schema({"ts": pa.int64()}))
            >>> count = tg.Aggregate(merge.schema, on="ts", size=2, aggs={"n": tg.agg.count()})
            >>> with tg.Chain(count, {count.sources[0]: merge}).running(print) as running:
            ...     running.stop()
        """
        for running in self._all:
            running._stopped.set()  # noqa: SLF001 - before any of them is waited for
        for running in self._all:
            running.stop()

    def _look(self) -> None:
        """End all threads where one has failed."""
        if self.error is not None:
            self._give_up()

    def _give_up(self) -> None:
        """End all threads, without a wait: one of them may be this one."""
        for running in self._all:
            running._give_up()  # noqa: SLF001 - as at the end of one


class _ChainFeed(Feed):
    """A source that takes the results of an operator, and its promises."""

    def __init__(self, source: Source, operator: Any, of: str | None) -> None:  # noqa: ANN401 - of Rust
        super().__init__(source)
        self.name, self.columns = operator._feed(source, of)  # noqa: SLF001 - of Rust
        self.time = of or self.name

    def give(self, batch: pa.RecordBatch) -> bool:
        return super().give(self.with_time(batch) if self.columns else batch)

    def with_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with one more column, of the later or the earlier of its times."""
        import pyarrow.compute as pc  # noqa: PLC0415 - only where it is asked for

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
    """Drop the time zone but keep the instants; pyarrow cannot compare times with time zones."""
    import pyarrow as pa  # noqa: PLC0415 - only where it is asked for

    has_zone = getattr(times.type, "tz", None) is not None
    return times.view(pa.timestamp(times.type.unit)) if has_zone else times


class _Link:
    """An operator and the source that it feeds."""

    def __init__(self, operator: Operator[Any], source: Source, of: str | None) -> None:
        self.operator: Any = operator
        self.source = source
        self.feed = _ChainFeed(source, operator, of)

    def go_on(self) -> bool:
        """Hand on all that is ready; whether there was anything."""
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
            "feeds: expected an operator before a source, or a pair of it and 'later' or "
            f"'earlier', got {type(operator).__name__}"
        )
        raise TypeError(message)
    return source, operator, of


def _in_order(
    last: Operator[Any], given: list[tuple[Source, Operator[Any], str | None]]
) -> list[Operator[Any]]:
    """The operators, each behind all that feed it."""
    ordered: list[Operator[Any]] = []
    entered: list[Operator[Any]] = []

    def enter(operator: Operator[Any]) -> None:
        if any(one is operator for one in entered):
            message = (
                "feeds: an operator feeds two sources, or itself; give each source an operator of "
                "its own"
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
            "feeds: a source belongs to no operator of the chain; each operator but the last feeds "
            "a source of another one"
        )
        raise TidegateError(message)
    return ordered


def _check(why: str, *, is_whole: bool) -> None:
    if not is_whole:
        message = f"the snapshot is damaged or of no chain: {why}"
        raise StateError(message)


def _parts(snapshot: bytes) -> list[bytes]:
    """The text of the links, and the states, of a snapshot that is whole."""
    size = len(snapshot)
    has_head = size >= _HEAD.size + _SUM.size
    _check(f"it has {size} bytes, and its head alone has more", is_whole=has_head)
    magic, version = _HEAD.unpack_from(snapshot)
    _check("it does not begin as one of a chain does", is_whole=magic == _MAGIC)
    body, (checksum,) = snapshot[: -_SUM.size], _SUM.unpack(snapshot[-_SUM.size :])
    _check("its checksum does not fit its bytes", is_whole=zlib.crc32(body) == checksum)
    if version != _VERSION:
        message = (
            f"the snapshot has version {version}, and this tidegate reads version {_VERSION} of "
            "snapshots of chains; use the tidegate that wrote it"
        )
        raise StateError(message)
    parts, at = [], _HEAD.size
    while at < len(body):
        _check("a part has no length", is_whole=len(body) - at >= _LENGTH.size)
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        _check("a part is longer than the rest", is_whole=length <= len(body) - at)
        parts.append(body[at : at + length])
        at += length
    _check("it has no parts", is_whole=bool(parts))
    return parts
