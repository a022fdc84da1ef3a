"""Readers of a merge: each receives each row, in order, on its own thread."""

import asyncio
import gc
import random
import threading
from typing import Any

import pyarrow as pa
import pytest

import campaign
from tidegate import ClosedError, MemoryLimitError, Merge, MergeReader, StateError, TidegateError

SCHEMA = pa.schema({"ts": pa.int64(), "n": pa.int64()})
PATIENCE = 60


def rows(times: list[int]) -> pa.Table:
    return pa.table({"ts": times, "n": range(len(times))}, SCHEMA)


def taken(reader: Merge | MergeReader) -> list[int]:
    return [ts for batch in iter(reader.poll, None) for ts in batch["ts"].to_pylist()]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(campaign.tries(8)))
def test_each_reader_gets_each_row_in_order_from_its_own_thread(seed: int, threads: int):
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    lengths = [draw.choice([0, 10, 3_000, 90_000]) for _ in range(3)]
    feeds = [sorted(draw.choices(range(1_000), k=length)) for length in lengths]
    plain = Merge(SCHEMA, sources=3)
    for source, times in zip(plain.sources, feeds, strict=True):
        source.push(rows(times))
        source.close()
    expected = pa.Table.from_batches(plain, SCHEMA)
    merge = Merge(SCHEMA, sources=3, threads=threads)
    found: dict[int, pa.Table] = {}

    def read(number: int, reader: MergeReader) -> None:
        found[number] = pa.Table.from_batches(reader, SCHEMA)

    readers = [
        threading.Thread(target=read, args=(number, merge.reader()), daemon=True)
        for number in range(4)
    ]
    for thread in readers:
        thread.start()
    for source, times in zip(merge.sources, feeds, strict=True):
        piece = draw.choice([7_000, 20_000])
        for start in range(0, len(times), piece):
            numbered = rows(times).slice(start, piece)
            source.push(numbered)
        source.close()
    for thread in readers:
        thread.join(PATIENCE)
    assert sorted(found) == [0, 1, 2, 3]
    assert all(table.equals(expected) for table in found.values())
    assert merge.stats()["rows_out"] == sum(lengths)


def test_rows_count_until_the_slowest_reader_has_them():
    merge = Merge(SCHEMA, memory_limit=10_000)
    fast, slow = merge.reader(), merge.reader()
    merge.sources[0].push(rows(list(range(100))))
    assert taken(fast) == list(range(100))
    assert merge.stats()["memory"] > 5_000
    with pytest.raises(MemoryLimitError, match="are held"):
        merge.sources[0].push(rows([100] * 100))
    assert taken(slow) == list(range(100))
    # The memory of the last batch is only freed by the next poll.
    assert (fast.poll(), slow.poll()) == (None, None)
    assert merge.stats()["memory"] == 0
    merge.sources[0].push(rows([100] * 100))


@pytest.mark.parametrize("way", ["close", "drop", "block"])
def test_a_reader_that_goes_lets_go_of_what_it_has_not_read(way: str):
    merge = Merge(SCHEMA)
    fast, slow = merge.reader(), merge.reader()
    merge.sources[0].push(rows([1, 2, 3]))
    assert taken(fast) == [1, 2, 3]
    assert merge.stats()["memory"] > 0
    if way == "close":
        slow.close()
        slow.close()
    elif way == "block":
        with slow:
            pass
    else:
        del slow
        gc.collect()
    assert merge.stats()["memory"] == 0


def test_a_slow_reader_holds_feeders_back():
    merge = Merge(SCHEMA, memory_limit=20_000)
    fast, slow = merge.reader(), merge.reader()

    def feed() -> None:
        with merge.sources[0] as source:
            for start in range(0, 2_000, 50):
                source.push(rows(list(range(start, start + 50))), block=True)

    found: list[int] = []

    def read() -> None:
        found.extend(ts for batch in fast for ts in batch["ts"].to_pylist())

    threads = [threading.Thread(target=work, daemon=True) for work in (feed, read)]
    for thread in threads:
        thread.start()
    threads[0].join(0.3)
    assert threads[0].is_alive()
    assert [ts for batch in slow for ts in batch["ts"].to_pylist()] == list(range(2_000))
    for thread in threads:
        thread.join(PATIENCE)
    assert found == list(range(2_000))


def test_a_merge_with_readers_is_not_polled_itself():
    merge = Merge(SCHEMA)
    reader = merge.reader()
    merge.sources[0].push(rows([1]))
    for use in (merge.poll, lambda: next(merge), lambda: merge.run(print)):
        with pytest.raises(TidegateError, match="rows of this merge go to its readers; poll them"):
            use()
    reader.close()
    assert taken(merge) == [1]


def test_a_reader_begins_with_what_nobody_has():
    merge = Merge(SCHEMA)
    merge.sources[0].push(rows([1]))
    assert taken(merge) == [1]
    merge.sources[0].push(rows([2]))
    first = merge.reader()
    assert taken(first) == [2]
    second = merge.reader()
    merge.sources[0].push(rows([3]))
    assert (taken(second), taken(first)) == ([3], [3])


def test_a_closed_reader_says_so():
    merge = Merge(SCHEMA)
    reader, other = merge.reader(), merge.reader()
    reader.close()
    with pytest.raises(ClosedError, match=r"the reader is closed; .* merge\.reader\(\)"):
        reader.poll()
    merge.close()
    with pytest.raises(ClosedError, match="the merge is closed"):
        other.poll()
    with pytest.raises(ClosedError, match="the merge is closed"):
        merge.reader()


def test_every_reader_is_told_of_a_source_that_was_abandoned():
    merge = Merge(SCHEMA, sources=2)
    readers = [merge.reader(), merge.reader()]
    merge.sources[0].push(rows([1, 2]))
    merge.sources[1].push(rows([1]))
    merge.sources[1].abandon("the line is down")
    for reader in readers:
        assert reader.poll()["ts"].to_pylist() == [1, 1]
        for _ in range(2):
            with pytest.raises(TidegateError, match="the line is down"):
                reader.poll()


def test_a_snapshot_needs_readers_at_one_place():
    merge = Merge(SCHEMA)
    first, second = merge.reader(), merge.reader()
    merge.sources[0].push(rows([1, 2]))
    assert taken(first) == [1, 2]
    with pytest.raises(
        StateError, match="continue reading with the readers that are behind, or close them"
    ):
        merge.snapshot()
    assert taken(second) == [1, 2]
    second.poll()
    merge.sources[0].push(rows([3]))
    saved = merge.snapshot()
    again = Merge(SCHEMA)
    again.restore(saved)
    readers = [again.reader(), again.reader()]
    assert [taken(reader) for reader in readers] == [[3], [3]]
    assert (taken(first), taken(second)) == ([3], [3])


def test_readers_in_asyncio():
    async def read(reader: MergeReader) -> list[int]:
        return [ts async for batch in reader for ts in batch["ts"].to_pylist()]

    async def feed(merge: Merge) -> None:
        with merge.sources[0] as source:
            for ts in range(20):
                source.push(rows([ts]))
                await asyncio.sleep(0)

    async def both() -> list[Any]:
        merge = Merge(SCHEMA)
        return await asyncio.gather(read(merge.reader()), read(merge.reader()), feed(merge))

    assert asyncio.run(both()) == [list(range(20)), list(range(20)), None]


@pytest.mark.timeout(60)
def test_a_reader_in_asyncio_lets_go_of_what_it_has_read():
    merge = Merge(SCHEMA, memory_limit=2_000)

    async def read(reader: MergeReader) -> int:
        return sum([batch.num_rows async for batch in reader])

    async def feed() -> None:
        with merge.sources[0] as source:
            for first in range(0, 900, 30):
                await source.push_async(rows([*range(first, first + 30)]))

    async def both() -> list[Any]:
        return await asyncio.gather(read(merge.reader()), feed())

    assert asyncio.run(both()) == [900, None]
