"""Joins whose sources have pushed many epochs before a poll."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate import ClosedError, IntervalJoin, interval_join

# The rows of each side; an epoch has 131,072 rows of both.
ROWS = 250_000
QUERY: dict[str, Any] = {"on": "ts", "by": "k", "lower": -40, "upper": 40}
SIDES = ("l", "r")

pytestmark = pytest.mark.timeout(120)


def side(name: str, seed: int, rows: int = ROWS) -> pa.Table:
    """Create rows whose keys change over time, and later use the numbers of earlier keys."""
    draw = np.random.default_rng(seed)
    ts = np.sort(draw.integers(0, rows, rows))
    # There are some thirty keys at a time, and each is used for some 3,000 times.
    keys = ts // 3_000 * 30 + draw.integers(0, 45, rows)
    return pa.table({"ts": ts, "k": keys * 7_919 % 1_000_003, name: np.arange(rows)})


TABLES = [side(name, seed) for seed, name in enumerate(SIDES)]


def new(**options: Any) -> IntervalJoin:
    left, right = (table.schema for table in TABLES)
    return IntervalJoin(left, right, **QUERY, **options)


def all_of(join: IntervalJoin) -> Iterator[pa.RecordBatch]:
    return iter(join.poll, None)


def push(join: IntervalJoin, first: int, last: int) -> None:
    for source, table in zip(join.sources, TABLES, strict=True):
        source.push(table[first:last])


def close(join: IntervalJoin) -> None:
    for source in join.sources:
        source.close()


def in_small_steps(how: Any) -> pa.Table:
    """Return the rows of a join with one thread, which never has more than an epoch to process."""
    join = new(how=how, threads=1)
    found: list[pa.RecordBatch] = []
    for first in range(0, ROWS, 10_000):
        push(join, first, first + 10_000)
        found.extend(all_of(join))
    close(join)
    return pa.Table.from_batches([*found, *join], join.schema)


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_rows_and_order_are_those_of_small_steps(how: Any) -> None:
    wanted = in_small_steps(how)
    order = [(name, "ascending") for name in wanted.column_names]
    table = interval_join(*TABLES, **QUERY, how=how)
    assert wanted.sort_by(order).equals(table.select(wanted.column_names).sort_by(order))
    for threads in (2, 3):
        for parallelism in ("key", "data", "hybrid", "scale-oij"):
            join = new(how=how, threads=threads, parallelism=parallelism)
            push(join, 0, ROWS)
            close(join)
            found = pa.Table.from_batches(join, join.schema)
            assert found.equals(wanted), (threads, parallelism)


def test_any_pushes_and_polls() -> None:
    wanted = in_small_steps("inner")
    for seed in range(6):
        draw = random.Random(seed)  # noqa: S311 - for tests
        join, first = new(threads=draw.choice([2, 4])), 0
        found: list[pa.RecordBatch] = []
        while first < ROWS:
            last = first + draw.choice([1, 3_000, 20_000, 150_000])
            push(join, first, last)
            first = last
            for _ in range(draw.randrange(4)):
                batch = join.poll()
                found.extend([] if batch is None else [batch])
        close(join)
        found.extend(join)
        assert pa.Table.from_batches(found, join.schema).equals(wanted), seed


def test_a_poll_returns_all_that_is_certain() -> None:
    """The result depends neither on the number of threads nor on that of epochs."""
    join, other = new(threads=2), new(threads=1)
    for one in (join, other):
        push(one, 0, ROWS // 2)
    rows = [sum(batch.num_rows for batch in all_of(one)) for one in (join, other)]
    assert rows[0] == rows[1] > 0
    waiting = [one.stats()["waiting"] for one in (join, other)]
    assert waiting[0]
    assert waiting[1]
    assert waiting[0]["rows"] == waiting[1]["rows"]
    assert join.stats()["state_rows"] == other.stats()["state_rows"]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_snapshot_between_two_epochs(threads: int) -> None:
    wanted = in_small_steps("inner")
    join = new(threads=2)
    push(join, 0, 200_000)
    found = [join.poll()]
    snapshot = join.snapshot()
    restored = new(threads=threads)
    restored.restore(snapshot)
    for one in (join, restored):
        push(one, 200_000, ROWS)
        close(one)
        rows = pa.Table.from_batches([*found, *one], one.schema)
        assert rows.equals(wanted)


def test_closing_between_two_epochs() -> None:
    join = new(threads=2, memory_limit=1_000_000_000)
    push(join, 0, 200_000)
    assert join.poll() is not None
    join.close()
    with pytest.raises(ClosedError):
        join.poll()
    assert join.stats()["memory"] == 0
