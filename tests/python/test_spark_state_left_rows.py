"""The state of streaming joins with one result row per left row, without Spark.

Half of the right rows share their time with another row, so that the order of values decides.
"""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate import agg
from tidegate._tidegate import join_query

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark before 4.2 has no such test double"
)

import campaign
from buckets import Bucket, pack, read
from cases import grid
from tidegate.spark.stream import operators, store
from tidegate.spark.worker.order import by_value
from tidegate.spark.worker.pack import LEFT, RIGHT

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
SECOND = 1_000_000
START = 1_700_000_000

AGGS = {
    "n": agg.count(),
    "first": agg.first("v"),
    "all": agg.collect("v"),
    "mean": agg.mean("v", where="row.v % 3 > 0"),
}
NEAR = {"on": "ts", "by": "k", "lower": "-4s", "upper": "2s", "aggs": AGGS}

# The native function, its arguments, and for how many seconds left and right rows matter.
CASES: dict[str, tuple[str, dict[str, Any], int | None, int | None]] = {
    "interval": ("interval_join", NEAR, 2, 6),
    "inner": ("interval_join", NEAR | {"how": "inner", "where": "right.v % 4 > left.v % 3"}, 2, 6),
    "prevailing": ("interval_join", NEAR | {"prevailing": True}, 2, None),
    "prevailing before": (
        "interval_join",
        NEAR | {"prevailing": True, "lower": "-2s", "upper": "-1s"},
        0,
        None,
    ),
    "band": (
        "band_join",
        {"on": "v", "within": 30, "by": "k", "time": "ts", "window": "4s", "aggs": AGGS},
        4,
        8,
    ),
    "backward": ("asof_join", {"on": "ts", "by": "k"}, 0, None),
    "backward within": ("asof_join", {"on": "ts", "by": "k", "tolerance": "3s"}, 0, 3),
    "backward where": ("asof_join", {"on": "ts", "by": "k", "where": "right.v % 2 = 0"}, 0, None),
    "backward where of both": (
        "asof_join",
        {"on": "ts", "by": "k", "where": "right.v % 5 < left.v % 5"},
        0,
        None,
    ),
    "forward": (
        "asof_join",
        {"on": "ts", "by": "k", "strategy": "forward", "how": "inner"},
        None,
        None,
    ),
    "forward within": (
        "asof_join",
        {"on": "ts", "by": "k", "strategy": "forward", "tolerance": "3s"},
        3,
        3,
    ),
    "nearest": (
        "asof_join",
        {"on": "ts", "by": "k", "strategy": "nearest", "how": "inner"},
        None,
        None,
    ),
    "nearest within": (
        "asof_join",
        {"on": "ts", "by": "k", "strategy": "nearest", "tolerance": "3s"},
        3,
        6,
    ),
    "anti": ("asof_join", {"on": "ts", "by": "k", "tolerance": "1s", "how": "anti"}, 0, 1),
}


def sides(case: str) -> operators.Sides:
    function, arguments, left, right = CASES[case]
    lasting = [None if seconds is None else seconds * SECOND for seconds in (left, right)]
    return operators.Sides(
        join=join_query(function, arguments),
        max_width=None,
        schemas=(SCHEMA, SCHEMA),
        times=(1, 1),
        lasting=(lasting[LEFT], lasting[RIGHT]),
        query="q",
        keeps_late=True,
        gives_left_rows=True,
        ties=arguments["on"],
        condenses=function == "asof_join" or "prevailing" in case,
    )


def rows(draw: random.Random, second: int, numbers: Iterator[int]) -> pa.Table:
    """Draw up to 12 rows close to a second. Keys may be null."""
    numbered = [next(numbers) for _ in range(draw.randrange(12))]
    # The order of the values is not that of the rows.
    values = [number * 7919 % 10_007 for number in numbered]
    keys = [draw.choice([1, 2, 3, None]) for _ in values]
    # Watermarks are whole seconds.
    times = [(second + draw.randrange(-12, 6)) * SECOND - draw.randrange(2) for _ in values]
    return pa.table([keys, times, values], schema=SCHEMA)


def expected(case: str, left: pa.Table, right: pa.Table) -> list[str]:
    function, arguments, _, _ = CASES[case]
    times = right["ts"].cast(pa.int64()).to_numpy()
    found = getattr(tidegate, function)(left, by_value(right, arguments["on"], times), **arguments)
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("forgetful", "spare"),
    [(0.0, 0), (0.5, 2_000), (0.5, 1 << 16), (1.0, 0)],
    ids=["warm", "some moved", "no snapshot", "all moved"],
)
def test_rows_are_those_of_the_join_of_tables(
    monkeypatch: pytest.MonkeyPatch, case: str, forgetful: float, spare: int
) -> None:
    monkeypatch.setattr(store, "_SPARE", spare)
    for seed in range(campaign.tries(3 if campaign.ALL else 1)):
        draw = random.Random(f"{case} {seed}")  # noqa: S311 - for tests
        bucket = Bucket(sides(case))
        numbers = iter(range(10_000))
        pushed: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        watermark = 0
        for number in range(12):
            second = START + number * 5
            packs = []
            for side in (LEFT, RIGHT):
                for _ in range(draw.randrange(3)):
                    pushed[side].append(rows(draw, second, numbers))
                    packs.append(pack(side, pushed[side][-1]))
            if draw.random() < 0.8:
                watermark = max(watermark, (second - 6) * SECOND)
            if draw.random() < forgetful:
                store._warm.clear()
            bucket.batch(watermark, *packs)
        for _ in range(2):
            bucket.batch((START + 1000) * SECOND)
        late = [{row["v"] for row in read(bucket.output, side)} for side in (LEFT, RIGHT)]
        assert all(late)
        left, right = (
            table.filter(pa.array([v not in late[side] for v in table["v"].to_pylist()]))
            for side, table in enumerate(map(pa.concat_tables, pushed))
        )
        found = sorted(map(repr, read(bucket.output, None)))
        assert found == expected(case, left, right)
        assert len(found) > 5


@pytest.mark.parametrize("case", ["interval", "band", "backward within", "nearest within", "anti"])
def test_a_silent_bucket_is_forgotten(case: str) -> None:
    bucket = Bucket(sides(case))
    table = pa.table([[1], [START * SECOND], [5]], schema=SCHEMA)
    bucket.batch(0, pack(LEFT, table), pack(RIGHT, table))
    bucket.batch((START + 100) * SECOND)
    assert bucket.entries == {}
    assert bucket.header is None


@grid(case=["backward", "prevailing", "forward", "nearest"], forgetful=[False, True])
def test_the_store_grows_with_the_keys_and_not_with_the_rows(
    monkeypatch: pytest.MonkeyPatch, case: str, *, forgetful: bool
) -> None:
    """Rows that no left row can need any more are removed, however long the stream runs."""
    monkeypatch.setattr(store, "_SPARE", 4_000)
    draw = random.Random(case)  # noqa: S311 - for tests
    bucket = Bucket(sides(case))
    sizes = []
    for number in range(60):
        second = START + number * 30
        for side in (LEFT, RIGHT):
            keys = [draw.randrange(3) for _ in range(100)]
            times = [(second + draw.randrange(20)) * SECOND for _ in keys]
            values = [draw.randrange(10**9) for _ in keys]
            table = pa.table([keys, times, values], schema=SCHEMA)
            bucket.batch((second - 1) * SECOND, pack(side, table))
        if forgetful:
            store._warm.clear()
        entries = bucket.entries.values()
        sizes.append(sum(len(part) for _, parts in entries for part in parts if part))
    # The native operator may keep a thousand right rows in addition to the needed ones.
    assert max(sizes[30:]) < 60_000 < sum(sizes)
    assert max(sizes[30:]) < 1.5 * max(sizes[:30])
    assert len(bucket.entries) < 30


def test_the_last_row_of_a_key_stays_however_long_ago_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "_SPARE", 0)
    bucket = Bucket(sides("backward"))
    old = pa.table([[1, 2], [START * SECOND] * 2, [7, 8]], schema=SCHEMA)
    bucket.batch(0, pack(RIGHT, old))
    other = pa.table([[3], [(START + 3600) * SECOND], [9]], schema=SCHEMA)
    bucket.batch((START + 1800) * SECOND, pack(LEFT, other), pack(RIGHT, other))
    store._warm.clear()
    later = pa.table([[1], [(START + 7200) * SECOND], [10]], schema=SCHEMA)
    bucket.batch((START + 5400) * SECOND, pack(LEFT, later))
    store._warm.clear()
    bucket.batch((START + 9000) * SECOND)
    assert [(row["v"], row["v_right"]) for row in read(bucket.output, None)] == [(9, 9), (10, 7)]
