"""Merging returns the rows in the order of a sort, regardless of the order of pushes.

The expected result is computed row by row in plain Python. A row is late if it is below the
watermark of its source, and the others are sorted by (time, source, position).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from tidegate import Merge, OrderError, merge, merge_batches

SCHEMA = pa.schema([("ts", pa.int64()), ("row", pa.string())])
LEAST, MOST = -(2**63), 2**63 - 1

Row = tuple[int, int, int]
"""Time, source, position."""


@dataclass
class Oracle:
    """Determines row by row which rows are late, and sorts the others."""

    sources: int
    lateness: int
    used: list[Row] = field(default_factory=list)
    late: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Source, position, missed watermark, time."""

    def __post_init__(self) -> None:
        """Start without promises and rows."""
        self.watermarks = [LEAST] * self.sources
        self.pushed = [0] * self.sources

    def push(self, source: int, times: Sequence[int]) -> pa.Table:
        """Accept rows, and return a table in which each row contains its name."""
        first = self.pushed[source]
        for position, ts in enumerate(times, first):
            if ts < self.watermarks[source]:
                self.late.append((source, position, self.watermarks[source], ts))
                continue
            self.used.append((ts, source, position))
            self.watermarks[source] = max(self.watermarks[source], ts - self.lateness)
        self.pushed[source] += len(times)
        names = [f"{source}/{position}" for position in range(first, self.pushed[source])]
        return pa.table({"ts": pa.array(times, pa.int64()), "row": names}, schema=SCHEMA)

    def advance(self, source: int, ts: int) -> None:
        """Promise that no earlier row will be pushed."""
        self.watermarks[source] = max(self.watermarks[source], ts)

    def rows(self) -> list[tuple[int, str]]:
        """Return all used rows, in merged order."""
        return [(ts, f"{source}/{position}") for ts, source, position in sorted(self.used)]

    def ready(self) -> list[tuple[int, str]]:
        """Return the used rows before which no later row of an open source can sort."""

        def is_ready(row: Row) -> bool:
            ts, source, _ = row
            return all(
                watermark > ts or (watermark == ts and other >= source)
                for other, watermark in enumerate(self.watermarks)
            )

        return [
            (ts, f"{source}/{position}")
            for ts, source, position in filter(is_ready, sorted(self.used))
        ]


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[tuple[int, str]]:
    return list(zip(batch["ts"].to_pylist(), batch["row"].to_pylist(), strict=True))


def polled(merging: Merge) -> list[tuple[int, str]]:
    """Return all rows that are ready."""
    rows = []
    while (batch := merging.poll()) is not None:
        assert batch.num_rows > 0
        batch.validate(full=True)
        rows += rows_of(batch)
    return rows


# Times with many ties, and the smallest and largest times.
TIMES = st.integers(-4, 8) | st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST])


# Any data: sources, cuts, ties, lateness, interleaving, threads


@given(
    streams=st.lists(st.lists(TIMES, max_size=20), min_size=1, max_size=6),
    cut=st.integers(1, 7),
    threads=st.integers(1, 8),
)
def test_sorted_streams_are_merged_as_by_sorting(
    streams: list[list[int]], cut: int, threads: int
) -> None:
    oracle = Oracle(len(streams), 0)
    tables = [oracle.push(source, sorted(times)) for source, times in enumerate(streams)]

    found = merge(tables, threads=threads)
    assert found.schema == SCHEMA
    assert rows_of(found) == oracle.rows()
    in_pieces = [table.to_reader(max_chunksize=cut) for table in tables]
    assert rows_of(pa.table(merge_batches(in_pieces, threads=threads))) == oracle.rows()


@given(
    streams=st.lists(st.lists(st.integers(-9, 9), max_size=20), min_size=1, max_size=4),
    cut=st.integers(1, 7),
    lateness=st.integers(0, 20),
)
def test_streams_out_of_order_are_merged_if_none_is_late(
    streams: list[list[int]], cut: int, lateness: int
) -> None:
    oracle = Oracle(len(streams), lateness)
    tables = [oracle.push(source, times) for source, times in enumerate(streams)]

    readers = [table.to_reader(max_chunksize=cut) for table in tables]
    if oracle.late:
        with pytest.raises(OrderError, match=r"streams\[\d\]: row \d+ of `ts` is -?\d"):
            merge(readers, lateness=lateness)
    else:
        assert rows_of(merge(readers, lateness=lateness)) == oracle.rows()


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, object]]]:
    """Draw a number of sources and the calls on their merge, in order."""
    sources = draw(st.integers(1, 5))
    push = st.tuples(st.just("push"), st.integers(0, sources - 1), st.lists(TIMES, max_size=8))
    other = st.tuples(
        st.sampled_from(["advance", "close", "poll"]), st.integers(0, sources - 1), TIMES
    )
    return sources, draw(st.lists(push | push | other, max_size=40))


@given(
    history=histories(),
    lateness=st.integers(0, 12) | st.just(MOST),
    threads=st.integers(1, 8),
)
def test_any_history(
    history: tuple[int, list[tuple[str, int, object]]], lateness: int, threads: int
) -> None:
    sources, steps = history
    oracle, merging = (
        Oracle(sources, lateness),
        Merge(SCHEMA, sources=sources, lateness=lateness, threads=threads),
    )
    closed: set[int] = set()
    found = []
    for step, source, given_ in steps:
        if step == "poll":
            found += polled(merging)
            # Each poll returns all rows that are ready, and no others.
            assert found == oracle.ready()
        elif source in closed:
            continue
        elif step == "push":
            merging.sources[source].push(oracle.push(source, given_))
        elif step == "advance":
            merging.sources[source].advance(given_)
            oracle.advance(source, given_)
        else:
            merging.sources[source].close()
            oracle.watermarks[source] = MOST + 1
            closed.add(source)
    for source in merging.sources:
        source.close()
    found += [row for batch in merging for row in rows_of(batch)]
    assert found == oracle.rows()

    late = merging.late()
    wanted = sorted(oracle.late)
    assert late["late_source"].to_pylist() == [source for source, _, _, _ in wanted]
    assert late["late_position"].to_pylist() == [position for _, position, _, _ in wanted]
    assert late["late_watermark"].to_pylist() == [watermark for _, _, watermark, _ in wanted]
    assert rows_of(late) == [(ts, f"{source}/{position}") for source, position, _, ts in wanted]
    stats = merging.stats()
    assert stats["rows_in"] == stats["rows_used"] + stats["rows_late"] == sum(oracle.pushed)
    assert (stats["rows_late"], stats["rows_out"]) == (len(oracle.late), len(oracle.used))
    assert (stats["watermark"], stats["memory"]) == (None, 0)


# Large data, which threads share


def many_rows(seed: int, rows: int, sources: int) -> list[pa.Table]:
    """Create sorted tables with ties, nulls and several types of payload."""
    random = np.random.default_rng(seed)
    tables = []
    for source in range(sources):
        count = int(random.integers(rows // 2, rows))
        numbers = np.arange(count)
        columns = {
            "ts": np.sort(random.integers(0, rows, count)),
            "price": pa.array(random.random(count), mask=random.random(count) < 0.1),
            "name": pa.array([f"{source}/{number}" for number in numbers]),
            "flag": pa.array(random.random(count) < 0.5),
            "list": pa.array([[n] * (n % 3) for n in numbers.tolist()], pa.list_(pa.int32())),
        }
        tables.append(pa.table(columns))
    return tables


def by_sorting(tables: Sequence[pa.Table], on: str = "ts") -> pa.Table:
    """Compute the merged order by a stable sort of the concatenated tables."""
    whole = pa.concat_tables(tables)
    return whole.take(pa.array(np.argsort(whole[on].cast(pa.int64()).to_numpy(), kind="stable")))


@pytest.mark.parametrize("sources", [1, 2, 7, 40])
def test_threads_and_cuts_do_not_change_a_bit(sources: int) -> None:
    tables = many_rows(sources, 240_000 // sources, sources)
    wanted = by_sorting(tables).combine_chunks()
    for threads in range(1, 9):
        assert merge(tables, threads=threads).combine_chunks().equals(wanted), threads
    for cut in (997, 60_000):
        pieces = [table.to_reader(max_chunksize=cut) for table in tables]
        assert merge(pieces, threads=3).combine_chunks().equals(wanted), cut


def test_as_many_sources_as_there_may_be_files() -> None:
    oracle = Oracle(10_000, 0)
    tables = [oracle.push(source, [source % 7, source % 7 + 3]) for source in range(10_000)]

    assert rows_of(merge(tables)) == oracle.rows()


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.date32(), pa.date64()),
        *(pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "Europe/Paris")),
    ],
)
def test_every_type_of_time(type_: pa.DataType) -> None:
    day = 86_400_000 if type_ == pa.date64() else 1

    def table(times: list[int]) -> pa.Table:
        steps = pa.array([time * day for time in times], pa.int64())
        return pa.table(
            {
                "at": steps.cast(pa.int32()).cast(type_)
                if type_ == pa.date32()
                else steps.cast(type_)
            }
        )

    wanted = table([1, 2, 2, 3, 4])
    assert merge([table([1, 2, 4]), table([2, 3])], on="at").combine_chunks().equals(wanted)

    merging = Merge(wanted.schema, on="at", lateness=1 if pa.types.is_integer(type_) else "0s")
    merging.sources[0].push(table([5, 3, 1]))
    late = merging.late()
    told = pa.int64() if pa.types.is_integer(type_) else type_
    assert late.schema.field("late_watermark").type == told
    assert late["at"].combine_chunks().equals(table([3, 1])["at"].combine_chunks())
    watermark = 4 if pa.types.is_integer(type_) else 5
    assert (
        late["late_watermark"].cast(table([1]).schema.field(0).type).to_pylist()
        == table([watermark] * 2)["at"].to_pylist()
    )


def test_a_watermark_may_lie_below_what_the_column_can_hold() -> None:
    times = pa.array([3, 2, 1], pa.uint32())
    merging = Merge(pa.schema([("ts", pa.uint32())]), lateness=10)
    merging.sources[0].push(pa.table({"ts": times}))
    assert merging.late().num_rows == 0
    assert merging.stats()["sources"][0]["watermark"] == -7


# Real feeds


@pytest.fixture(scope="module")
def feeds(data: Path) -> list[pa.Table]:
    """Return messages of exchanges in the order of reception, one table per feed."""
    messages = pq.read_table(data / "exchange_feeds" / "messages.parquet")
    names = pc.unique(messages["feed"]).to_pylist()
    return [messages.filter(pc.equal(messages["feed"], name)) for name in names]


def test_real_feeds_by_time_of_reception(feeds: list[pa.Table]) -> None:
    assert len(feeds) >= 2
    in_order = [feed.sort_by("recv_ts") for feed in feeds]
    wanted = ipc(by_sorting(in_order, "recv_ts"))
    for threads in range(1, 9):
        for cut in (1, 100, 10_000):
            readers = [feed.to_reader(max_chunksize=cut * threads) for feed in in_order]
            assert ipc(merge(readers, on="recv_ts", threads=threads)) == wanted


def ipc(table: pa.Table) -> bytes:
    """Return the bytes of a table, regardless of its chunks."""
    sink = pa.BufferOutputStream()
    whole = table.combine_chunks()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole, max_chunksize=max(whole.num_rows, 1))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("lateness_ms", [0, 20, 2_000])
def test_real_feeds_out_of_order(feeds: list[pa.Table], lateness_ms: int) -> None:
    """Event times are out of order, as the exchanges sent them; too late rows are set aside."""
    results = set()
    counts = set()
    for threads, cut in ((1, 7), (2, 1_000), (5, 100_000)):
        merging = Merge(
            feeds[0].schema,
            on="event_ts",
            sources=len(feeds),
            lateness=f"{lateness_ms}ms",
            threads=threads,
        )
        batches = []
        for source, feed in zip(merging.sources, feeds, strict=True):
            with source:
                for batch in feed.to_batches(max_chunksize=cut):
                    source.push(batch)
        batches += list(merging)
        found = pa.Table.from_batches(batches)
        late = merging.late()
        results.add((ipc(found), ipc(late)))
        counts.add(late.num_rows)
        stats = merging.stats()
        assert (
            stats["rows_in"]
            == sum(feed.num_rows for feed in feeds)
            == stats["rows_used"] + stats["rows_late"]
        )
        assert (stats["rows_used"], stats["rows_late"]) == (found.num_rows, late.num_rows)
    assert len(results) == 1
    assert counts == {late_rows(feeds, lateness_ms * 1_000)}


def late_rows(feeds: list[pa.Table], lateness: int) -> int:
    count = 0
    for feed in feeds:
        watermark = LEAST
        for ts in feed["event_ts"].cast(pa.int64()).to_pylist():
            count += ts < watermark
            watermark = max(watermark, ts - lateness)
    return count
