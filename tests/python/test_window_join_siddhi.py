"""Window joins in situations from Siddhi's tests: time windows, row-based windows, outer joins.

The situations are those of `JoinTestCase`, `OuterJoinTestCase` and `LengthWindowTestCase` in Siddhi
(https://github.com/siddhi-io/siddhi, Apache License 2.0), rewritten. Siddhi returns an unmatched
row when it arrives, and again with each partner that arrives later. tidegate returns it once, when
no partner can arrive any more.
"""

import pyarrow as pa
import pytest

from tidegate import WindowJoin, rows, window_join
from tidegate.types import How, Window, WindowAlgorithm

ALGORITHMS: list[WindowAlgorithm] = [
    "auto",
    "scalejoin",
    "scalejoin-gates",
    "splitjoin",
    "cell",
    "three-step",
    "handshake",
    "low-latency-handshake",
]
PRICES = pa.schema([("ts", pa.int64()), ("symbol", pa.string()), ("price", pa.float32())])
POSTS = pa.schema([("ts", pa.int64()), ("company", pa.string()), ("text", pa.string())])
SAME = "left.symbol = right.company"

Found = set[tuple[object, object]]


def prices(*told: tuple[int, str, float]) -> pa.Table:
    """Create prices with their times."""
    return pa.Table.from_pylist([dict(zip(PRICES.names, row, strict=True)) for row in told], PRICES)


def posts(*told: tuple[int, str, str]) -> pa.Table:
    """Create posts with their times."""
    return pa.Table.from_pylist([dict(zip(POSTS.names, row, strict=True)) for row in told], POSTS)


def joined(
    left: pa.Table,
    right: pa.Table,
    window: tuple[Window, Window],
    algorithm: WindowAlgorithm,
    where: str | None = SAME,
    how: How = "inner",
) -> Found:
    """Return the price and the text of each result row, which agree for tables and streams."""
    query = {"on": "ts", "window": window, "where": where, "how": how, "algorithm": algorithm}
    whole = window_join(left, right, **query, threads=2)
    with WindowJoin(left.schema, right.schema, **query, threads=2, pin=False) as join:
        for source, table in zip(join.sources, (left, right), strict=True):
            source.push(table)
            source.close()
        streamed = [row for batch in join for row in batch.to_pylist()]
    names = [name for name in ("price", "text", "price_right") if name in whole.column_names]
    found = [tuple(row[name] for name in names) for row in whole.to_pylist()]
    assert sorted(map(repr, found)) == sorted(
        repr(tuple(row[n] for n in names)) for row in streamed
    )
    assert len(found) == len(set(found))
    return set(found)


@pytest.fixture(params=ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> WindowAlgorithm:
    """Return each of the algorithms."""
    return request.param


@pytest.mark.parametrize("seconds", [1, 2])
def test_a_price_meets_the_posts_of_the_last_seconds(algorithm, seconds):
    """`JoinTestCase`, tests 1, 2, 4 and 12."""
    half = seconds * 500
    left = prices((0, "A", 55.5), (0, "B", 75.5), (half, "A", 57.5), (4 * half, "A", 1.0))
    right = posts((0, "A", "hello"))
    found = joined(left, right, (2 * half, 2 * half), algorithm)
    assert found == {(55.5, "hello"), (57.5, "hello")}


def test_a_stream_joined_with_itself(algorithm):
    """`JoinTestCase`, tests 3 and 3_1."""
    both = prices((0, "A", 75.5), (0, "B", 57.5))
    found = joined(both, both, (500, 500), algorithm, "left.symbol = right.symbol")
    assert found == {(75.5, 75.5), (57.5, 57.5)}


def test_the_last_row_of_each_side_without_a_condition(algorithm):
    """`JoinTestCase`, tests 5 and 8."""
    left = prices((0, "A", 55.5), (2, "B", 75.5), (3, "A", 57.5))
    found = joined(left, posts((1, "A", "hello")), (rows(1), rows(1)), algorithm, None)
    assert found == {(55.5, "hello"), (75.5, "hello"), (57.5, "hello")}
    # A later post only meets the last price, and a price only the last post.
    right = posts((1, "A", "hello"), (4, "A", "bye"))
    assert joined(left, right, (rows(1), rows(1)), algorithm, None) == found | {(57.5, "bye")}


def test_a_side_that_does_not_stay_meets_what_came_before(algorithm):
    """`JoinTestCase`, tests 10 and 11: a stream without a window, next to one that has one."""
    left = prices((0, "A", 55.5), (2, "B", 75.5), (3, "A", 57.5))
    found = joined(left, posts((1, "A", "hello")), (0, 100), algorithm, None)
    assert found == {(75.5, "hello"), (57.5, "hello")}


def test_full_outer_with_the_last_three_and_the_last_one(algorithm):
    """`OuterJoinTestCase`, test 1."""
    left = prices((0, "A", 55.5), (2, "B", 75.5), (3, "A", 57.5))
    found = joined(left, posts((1, "A", "hello")), (rows(3), rows(1)), algorithm, how="full")
    assert found == {(55.5, "hello"), (75.5, None), (57.5, "hello")}


def test_right_outer_with_the_last_one_and_the_last_two(algorithm):
    """`OuterJoinTestCase`, test 2."""
    left = prices((1, "C", 47.5), (3, "A", 57.5))
    right = posts((0, "A", "hello"), (2, "B", "welcome"))
    found = joined(left, right, (rows(1), rows(2)), algorithm, how="right")
    assert found == {(57.5, "hello"), (None, "welcome")}
    # With room for the last one only, the first post would have left.
    found = joined(left, right, (rows(1), rows(1)), algorithm, how="right")
    assert found == {(None, "hello"), (None, "welcome")}


def test_left_outer_with_the_last_two_and_the_last_one(algorithm):
    """`OuterJoinTestCase`, test 3."""
    left = prices((0, "A", 57.5), (2, "B", 47.5))
    right = posts((1, "C", "welcome"), (3, "A", "hello"))
    found = joined(left, right, (rows(2), rows(1)), algorithm, how="left")
    assert found == {(57.5, "hello"), (47.5, None)}


def test_no_rows_on_the_side_that_is_kept(algorithm):
    """`OuterJoinTestCase`, tests 6 and 7."""
    left = prices((0, "B", 57.5), (1, "A", 57.0))
    assert joined(left, posts(), (rows(2), rows(1)), algorithm, how="right") == set()


@pytest.mark.parametrize(("count", "left_before_the_end"), [(2, 0), (4, 0), (6, 2)])
def test_rows_leave_a_window_of_four_in_their_order(algorithm, count, left_before_the_end):
    """`LengthWindowTestCase`: the oldest row leaves when a fifth row arrives."""
    with WindowJoin(
        PRICES, POSTS, on="ts", window=rows(4), how="left", where=SAME, algorithm=algorithm,
        threads=2, pin=False,
    ) as join:  # fmt: skip
        left, right = join.sources
        left.push(prices(*((ts, "A", float(ts)) for ts in range(count))))
        left.advance(100)
        right.advance(100)
        if algorithm != "handshake":
            gone = [row["ts"] for batch in iter(join.poll, None) for row in batch.to_pylist()]
            assert gone == list(range(left_before_the_end))
            assert join.stats()["state_rows"] == count - left_before_the_end
        else:
            gone = []
        left.close()
        right.close()
        rest = [row["ts"] for batch in join for row in batch.to_pylist()]
        assert gone + rest == list(range(count))
