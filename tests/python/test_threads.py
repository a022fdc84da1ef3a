"""Larger joins that threads share: the rows of DuckDB, for 1 to 8 threads."""

import numpy as np
import pyarrow as pa
import pytest

import oracle
from tidegate import interval_join, interval_join_batches

KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def ticks(seed: int, count: int, hot: float) -> pa.Table:
    """Create unsorted rows in several chunks, a share of them with one hot key."""
    random = np.random.default_rng(seed)
    keys = random.integers(0, 300, count)
    keys[random.random(count) < hot] = 7
    times = random.permutation(np.arange(count)) // 2
    columns = {"ts": times, "k": pa.array(keys, mask=random.random(count) < 0.01)}
    table = pa.table(columns | {"row": np.arange(count)})
    cuts = np.sort(random.integers(0, count, 3))
    return pa.concat_tables(
        table[start:end] for start, end in zip([0, *cuts], [*cuts, count], strict=True)
    )


@pytest.mark.parametrize("how", KINDS)
def test_one_to_eight_threads_give_the_rows_of_duckdb(how):
    left, right = ticks(1, 90_000, hot=0.1), ticks(2, 70_000, hot=0.1)
    join = oracle.Join(on=("ts", "ts"), by=[("k", "k")], lower=-50, upper=30, how=how)
    wanted = oracle.result(left, right, oracle.duckdb_pairs(left, right, join), join)
    assert wanted.num_rows > 10_000
    arguments = {"on": "ts", "by": "k", "lower": -50, "upper": 30, "how": how}
    for threads in range(1, 9):
        assert interval_join(left, right, threads=threads, **arguments).equals(wanted), threads
    assert pa.table(interval_join_batches(left, right, threads=3, **arguments)).equals(wanted)


@pytest.mark.parametrize("how", KINDS)
def test_threads_share_a_hot_key_and_give_the_same_rows(how):
    left, right = ticks(3, 200_000, hot=0.5), ticks(4, 200_000, hot=0.5)
    arguments = {"on": "ts", "by": "k", "lower": -5, "upper": 3, "how": how}
    one = interval_join(left, right, threads=1, **arguments)
    for threads in (2, 3, 8):
        assert interval_join(left, right, threads=threads, **arguments).equals(one), threads


@pytest.mark.parametrize("how", KINDS)
def test_where_gives_the_same_rows_for_all_threads(how):
    left, right = ticks(5, 40_000, hot=0.5), ticks(6, 40_000, hot=0.5)
    arguments = {"on": "ts", "by": "k", "lower": -5, "upper": 3, "how": how}
    condition = "(left.row + right.row) % 3 = 0"
    one = interval_join(left, right, where=condition, threads=1, **arguments)
    assert one.num_rows > 100
    for threads in (2, 3, 8):
        found = interval_join(left, right, where=condition, threads=threads, **arguments)
        assert found.equals(one)
