"""Cases from the tests of other stream joins, with the results of this join.

The ideas are from the tests of Apache Flink, Apache Kafka Streams, Apache Spark and Pathway. Each
test names the one that it follows.
"""

import pyarrow as pa
import pytest

from tidegate import IntervalJoin

Row = tuple[int, ...]


def rows(*values: Row | int, name: str) -> pa.Table:
    """Create rows of a key `k`, a time `ts` and a value; a single number is a time, with key 1."""
    full = [value if isinstance(value, tuple) else (1, value, value) for value in values]
    keys, times, payload = zip(*full, strict=True) if full else ((), (), ())
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "ts": pa.array(times, pa.int64()),
            name: pa.array(payload, pa.int64()),
        }
    )


def joined(**arguments: object) -> IntervalJoin:
    schemas = rows(name="l").schema, rows(name="r").schema
    return IntervalJoin(*schemas, on="ts", by="k", columns=["l", "r"], **arguments)


def taken(join: IntervalJoin) -> list[tuple[int | None, int | None]]:
    """Return the pairs that are final."""
    return [(pair["l"], pair["r"]) for batch in iter(join.poll, None) for pair in batch.to_pylist()]


def finished(join: IntervalJoin) -> list[tuple[int | None, int | None]]:
    for source in join.sources:
        source.close()
    return taken(join)


# Flink


BOUNDS = {
    (-2, -1, "both"): [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)],
    (-1, 1, "both"): [
        *[(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4)]
    ],
    (1, 2, "both"): [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)],
    (-3, -1, "neither"): [(3, 1), (4, 2)],
    (-1, 1, "neither"): [(1, 1), (2, 2), (3, 3), (4, 4)],
    (1, 3, "neither"): [(1, 3), (2, 4)],
}


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("left_first", [True, False])
def test_bounds_of_either_sign_and_either_side_ahead(bounds, left_first):
    """After Flink's `IntervalJoinOperatorTest`, the tests named for the signs of both bounds."""
    lower, upper, closed = bounds
    join = joined(lower=lower, upper=upper, closed=closed)
    (left,), (right,) = join.left_sources, join.right_sources
    pushes = [(left, rows(1, 2, 3, 4, name="l")), (right, rows(1, 2, 3, 4, name="r"))]
    for source, table in pushes if left_first else pushes[::-1]:
        for row in range(4):
            source.push(table.slice(row, 1))
    assert sorted(finished(join)) == BOUNDS[bounds]


def test_mirrored_bounds_give_mirrored_pairs():
    """After Flink's `testImplementationMirrorsCorrectly`."""
    ahead, behind = (
        joined(lower=1, upper=2, closed="right"),
        joined(lower=-2, upper=-1, closed="left"),
    )
    for join in (ahead, behind):
        join.left_sources[0].push(rows(1, 2, 3, 4, name="l"))
        join.right_sources[0].push(rows(1, 2, 3, 4, name="r"))
    assert (
        sorted(finished(ahead)) == sorted((b, a) for a, b in finished(behind)) == [(1, 3), (2, 4)]
    )


@pytest.mark.parametrize(
    ("lower", "upper", "closed", "kept"),
    [
        # The rows of 1 to 5 on both sides that may still get a partner at 6, at 7 and at 9
        (-1, 0, "both", [0 + 1, 0, 0]),
        (-2, 1, "neither", [0 + 1, 0, 0]),
        (0, 1, "both", [1 + 0, 0, 0]),
        (-1, 2, "neither", [1 + 0, 0, 0]),
        (-3, 2, "both", [2 + 3, 1 + 2, 0]),
        (1, 4, "both", [4 + 0, 3 + 0, 1 + 0]),
    ],
)
@pytest.mark.parametrize("how", ["inner", "full"])
def test_rows_are_kept_as_long_as_they_may_match(lower, upper, closed, kept, how):
    """After Flink's `testStateCleanup...`, which inspect both buffers."""
    join = joined(lower=lower, upper=upper, closed=closed, how=how)
    (left,), (right,) = join.left_sources, join.right_sources
    for ts in range(1, 6):
        left.push(rows(ts, name="l"))
        right.push(rows(ts, name="r"))
        left.advance(ts + 1)
        right.advance(ts + 1)
        taken(join)
    found = []
    for promise in (6, 7, 9):
        left.advance(promise)
        right.advance(promise)
        taken(join)
        found.append(join.stats()["state_rows"])
    assert found == kept


def test_late_rows_are_joined_with_nothing():
    """After Flink's `testDiscardsLateData`."""
    join = joined(lower=-1, upper=1)
    (left,), (right,) = join.left_sources, join.right_sources
    left.push(rows(1, 2, 3, name="l"))
    right.push(rows(1, 2, 3, name="r"))
    left.advance(4)
    right.advance(4)
    left.push(rows(1, 4, 5, name="l"))
    right.push(rows(4, 5, name="r"))
    pairs = finished(join)
    wanted = [(a, b) for a in range(1, 6) for b in range(1, 6) if abs(a - b) <= 1]
    assert sorted(pairs) == wanted
    assert join.late().select(["late_watermark", "l"]).to_pylist() == [
        {"late_watermark": 4, "l": 1}
    ]


def test_a_left_join_with_a_condition_on_its_own_row():
    """After Flink SQL's `testRowTimeLeftOuterJoin`: L-5 fails the condition and stays unmatched."""
    left_rows = [(1, 1), (1, 2), (2, 4), (2, 5), (1, 6), (3, 7), (1, 10), (1, 12), (1, 20)]
    right_rows = [(1, 6), (2, 7), (4, 8), (1, 11)]
    # t1 between t2 - 5 and t2 + 6, seen from the left.
    join = joined(lower=-6, upper=5, how="left", where="left.l <> 5")
    join.left_sources[0].push(rows(*[(k, ts, ts) for k, ts in left_rows], name="l"))
    join.right_sources[0].push(rows(*[(k, ts, ts) for k, ts in right_rows], name="r"))
    # A pair is at its later row, and an unmatched row after all pairs of its time plus 5.
    assert finished(join) == [
        *[(1, 6), (2, 6), (6, 6), (4, 7), (10, 6), (5, None), (6, 11), (10, 11)],
        *[(12, 6), (12, 11), (7, None), (20, None)],
    ]


def test_a_negative_interval_leaves_all_alone():
    """After Flink SQL's `testRowTimeLeftOuterJoinNegativeIntervalSize`.

    Here the bounds of an interval may not cross. An empty interval has equal, open ends.
    """
    join = joined(lower=-2, upper=-2, closed="neither", how="full")
    join.left_sources[0].push(rows(1, 4, name="l"))
    join.right_sources[0].push(rows(2, 4, name="r"))
    assert finished(join) == [(1, None), (None, 2), (4, None), (None, 4)]


def test_equal_times_pair_all_with_all():
    """After Flink SQL's `testRowTimeInnerJoinWithEquiTimeAttrs`: a second out of order."""
    join = joined(lower=0, upper=0, lateness=1000)
    left_rows = [(1, 1000, 1), (1, 1000, 2), (1, 1000, 3), (2, 2000, 4), (1, 4000, 5)]
    right_rows = [(1, 1000, 1), (1, 1000, 2), (1, 1000, 3), (2, 3000, 4), (1, 4000, 5)]
    join.left_sources[0].push(rows(*left_rows, (1, 6000, 7), (1, 5001, 8), name="l"))
    join.right_sources[0].push(rows(*right_rows, (1, 6000, 6), (1, 5001, 7), name="r"))
    assert finished(join) == [
        *[(of_left, of_right) for of_right in (1, 2, 3) for of_left in (1, 2, 3)],
        *[(5, 5), (8, 7), (7, 6)],
    ]
    assert join.stats()["rows_late"] == 0


def test_open_bounds_and_a_condition_on_both_sides():
    """After Flink SQL's `testRowTimeInnerJoinWithOtherConditions`."""
    left_rows = [(1, 1000, 4), (1, 1001, 8), (1, 2000, 2), (1, 3000, 7), (2, 4000, 5), (1, 4999, 4)]
    right_rows = [(1, 1000, 1), (1, 6000, 9), (2, 7000, 14), (1, 8000, 4)]
    join = joined(lower=1000, upper=5000, closed="neither", where="left.l < right.r and left.l > 2")
    join.left_sources[0].push(rows(*left_rows, (1, 5000, 4), (1, 6000, 10), name="l"))
    join.right_sources[0].push(rows(*right_rows, name="r"))
    assert finished(join) == [(8, 9), (7, 9), (4, 9), (5, 14)]


# Kafka Streams


def test_no_spurious_row_without_a_partner():
    """After Kafka Streams' `KStreamKStreamLeftJoinTest`, the fix of KAFKA-10847.

    Before the fix, Kafka emitted a left row alone and again with its partner. Now it waits for the
    window to close, as tidegate does.
    """
    join = joined(lower=-100, upper=100, how="left")
    (left,), (right,) = join.left_sources, join.right_sources
    left.push(rows((0, 0, 0), (1, 0, 1), name="l"))
    right.advance(100)
    assert taken(join) == []
    right.push(rows((0, 100, 10), name="r"))
    left.advance(101)
    assert taken(join) == [(0, 10)]
    right.advance(101)
    assert taken(join) == [(1, None)]
    assert finished(join) == []


@pytest.mark.parametrize(
    ("at", "partners"),
    [(899, 0), (900, 1), (901, 2), (1000, 4), (1100, 4), (1101, 3), (1103, 1), (1104, 0)],
)
def test_a_window_moves_over_rows_one_by_one(at, partners):
    """After Kafka Streams' `testWindowing`: keys 0 to 3 at 1000 to 1003, a window of 100."""
    join = joined(lower=-100, upper=100, how="left", lateness=1000)
    join.right_sources[0].push(rows(*[(key, 1000 + key, key) for key in range(4)], name="r"))
    join.left_sources[0].push(rows(*[(key, at, key) for key in range(4)], name="l"))
    pairs = finished(join)
    assert sorted(left for left, _ in pairs) == [0, 1, 2, 3]
    assert sum(right is not None for _, right in pairs) == partners


@pytest.mark.parametrize(("lower", "upper"), [(0, 100), (-100, 0)])
def test_windows_on_one_side_only(lower, upper):
    """After Kafka Streams' `testAsymmetricWindowingBefore` and `...After`."""
    join = joined(lower=lower, upper=upper, how="left")
    join.left_sources[0].push(rows(0, 1000, name="l"))
    join.right_sources[0].push(rows(0, 900, 1000, 1100, name="r"))
    assert sorted(pair for pair in finished(join) if pair[0] == 1000) == (
        [(1000, 1000), (1000, 1100)] if upper else [(1000, 900), (1000, 1000)]
    )


def test_an_outer_join_gives_each_row_alone_once_its_time_is_over():
    """After Kafka Streams' `KStreamKStreamOuterJoinTest`: unmatched rows of both sides wait."""
    join = joined(lower=-100, upper=100, how="full")
    (left,), (right,) = join.left_sources, join.right_sources
    left.push(rows((0, 0, 0), (1, 50, 1), name="l"))
    right.push(rows((1, 60, 11), (2, 70, 12), name="r"))
    assert taken(join) == []
    # Rows of other keys advance the time.
    left.push(rows((9, 300, 9), name="l"))
    right.push(rows((9, 500, 19), name="r"))
    assert taken(join) == [(1, 11), (0, None), (None, 12)]
    assert finished(join) == [(9, None), (None, 19)]


# Spark


def test_a_row_that_was_joined_never_comes_alone():
    """After Spark's `StreamingOuterJoinSuite`, SPARK-26187, a self join in several batches.

    In that issue, rows that were joined in one batch were emitted as unmatched in a later batch.
    The state of one side was cleared before that of the other.
    """
    join = joined(lower=-5, upper=0, how="left")
    (left,), (right,) = join.left_sources, join.right_sources
    found = []
    for first in (1, 6, 11):
        values = range(first, first + 5)
        left.push(rows(*[(v, v, v) for v in values], name="l"))
        right.push(rows(*[(v, v, v) for v in values if v % 2 == 0], name="r"))
        found += taken(join)
    found += finished(join)
    assert sorted(found) == [(v, v if v % 2 == 0 else None) for v in range(1, 16)]


def test_a_row_that_fails_its_own_condition_comes_alone_once():
    """After Spark's `left outer early state exclusion on left`, which emits the row immediately."""
    join = joined(lower=0, upper=9, how="left", where="left.l > 2")
    (left,), (right,) = join.left_sources, join.right_sources
    left.push(rows((1, 1, 1), (2, 2, 2), (3, 3, 3), name="l"))
    right.push(rows((3, 3, 9), (4, 4, 12), (5, 5, 15), name="r"))
    left.push(rows((20, 20, 20), name="l"))
    right.push(rows((20, 21, 60), name="r"))
    assert taken(join) == [(3, 9), (1, None), (2, None)]
    assert finished(join) == [(20, 60)]


def test_matches_that_fail_the_condition_are_no_matches():
    """After Spark's `left outer join with non-key condition violated`."""
    join = joined(lower=-9, upper=9, how="left", where="right.r < 300")
    (left,), (right,) = join.left_sources, join.right_sources
    left.push(rows((101, 101, 101), (40, 102, 40), name="l"))
    right.push(rows((101, 101, 303), (40, 102, 120), name="r"))
    assert finished(join) == [(40, 120), (101, None)]


# Pathway


LEFT_TIMES = {1: -1, 2: 0, 3: 2, 4: 3, 5: 7, 6: 13}
RIGHT_TIMES = {1: 2, 2: 5, 3: 6, 4: 10, 5: 15}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("distance", [1, 2, 3])
def test_distances_without_a_key(how, distance):
    """After Pathway's `test_interval_join_time_only`."""
    left = rows(*[(0, ts, a) for a, ts in LEFT_TIMES.items()], name="l")
    right = rows(*[(0, ts, b) for b, ts in RIGHT_TIMES.items()], name="r")
    join = IntervalJoin(
        left.schema,
        right.schema,
        on="ts",
        lower=-distance,
        upper=distance,
        how=how,
        columns=["l", "r"],
    )
    join.left_sources[0].push(left)
    join.right_sources[0].push(right)
    pairs = {
        1: [(3, 1), (4, 1), (5, 3)],
        2: [(2, 1), (3, 1), (4, 1), (4, 2), (5, 2), (5, 3), (6, 5)],
        3: [
            *[(1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 2), (5, 3), (5, 4)],
            *[(6, 4), (6, 5)],
        ],
    }[distance]
    alone_left = {1: [1, 2, 6], 2: [1], 3: []}[distance] if how in ("left", "full") else []
    alone_right = {1: [2, 4, 5], 2: [4], 3: []}[distance] if how in ("right", "full") else []
    found = finished(join)
    assert {pair for pair in found if None not in pair} == set(pairs)
    assert sorted(a for a, b in found if b is None) == alone_left
    assert sorted(b for a, b in found if a is None) == alone_right
    assert len(found) == len(pairs) + len(alone_left) + len(alone_right)


def test_times_that_never_overlap():
    """After Pathway's `test_non_overlapping_times`."""
    join = joined(lower=-1, upper=2, how="full")
    join.left_sources[0].push(rows(0, 1, 2, 3, name="l"))
    join.right_sources[0].push(rows(9, 10, 11, name="r"))
    assert finished(join) == [
        *[(0, None), (1, None), (2, None), (3, None)],
        *[(None, 9), (None, 10), (None, 11)],
    ]


def test_rows_that_come_long_after_the_watermark_are_kept_apart():
    """After Pathway's temporal behaviors, whose cutoff drops late rows silently."""
    join = joined(lower=0, upper=1)
    (left,), (right,) = join.left_sources, join.right_sources
    left.push(rows(100, name="l"))
    right.push(rows(100, 50, 101, name="r"))
    assert finished(join) == [(100, 100), (100, 101)]
    assert join.late()["r"].to_pylist() == [50]


@pytest.mark.parametrize(("closed", "times"), [("left", [4, 0, 5]), ("both", [4, 5, 0])])
def test_a_row_alone_comes_after_the_pairs_of_its_last_matchable_time(closed, times):
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    with IntervalJoin(
        schema, schema, on="ts", by="k", lower=0, upper=5, closed=closed, how="left"
    ) as join:
        left, right = join.sources
        left.push(pa.table({"ts": [0, 4, 5], "k": [0, 1, 2]}, schema=schema))
        right.push(pa.table({"ts": [4, 5], "k": [1, 2]}, schema=schema))
        left.close()
        right.close()
        found = pa.Table.from_batches(list(join))
    assert found["ts"].to_pylist() == times
