"""The state of streaming joins without Spark: PySpark's in-memory test double feeds buckets."""

import copy
import dataclasses
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

import campaign
import tidegate

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark before 4.2 has no such test double"
)

from pyspark.sql import Row

from buckets import Bucket, counted, pack, read, us
from tidegate._tidegate import join_query
from tidegate.spark.stream import operators, store
from tidegate.spark.worker.pack import LEFT, MARK, RIGHT, RIGHT_COPY

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
SECOND = 1_000_000
HOWS = ("inner", "left", "right", "full", "semi", "anti")


def sides(how: str, lower: int, upper: int, band: int | None = None) -> operators.Sides:
    width = upper - lower
    function, arguments = "interval_join", {"on": "ts", "lower": us(lower), "upper": us(upper)}
    if band is not None:
        function = "band_join"
        arguments = {"on": "v", "within": band, "time": "ts", "window": (us(upper), us(-lower))}
    return operators.Sides(
        join=join_query(function, {**arguments, "by": "k", "how": how}),
        max_width=None,
        schemas=(SCHEMA, SCHEMA),
        times=(1, 1),
        lasting=(
            max(0, upper, width if how in ("right", "full") else 0),
            max(0, -lower, 0 if how in ("inner", "right") else width),
        ),
        query="q",
        keeps_late=True,
    )


def rows(draw: random.Random, first: int, count: int, numbers: Iterator[int]) -> pa.Table:
    ts = [first + draw.randrange(-12 * SECOND, 6 * SECOND) for _ in range(count)]
    # Half of the rows are at a watermark, which is a whole second, or just before it.
    ts = [draw.choice([time, time // SECOND * SECOND - draw.randrange(2)]) for time in ts]
    key = [draw.choice([1, 2, 3, None]) for _ in range(count)]
    return pa.table([key, ts, [next(numbers) for _ in range(count)]], schema=SCHEMA)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("forgetful", [0.0, 0.4, 1.0], ids=["warm", "some moved", "all moved"])
@pytest.mark.parametrize("band", [None, 9], ids=["interval", "band"])
@pytest.mark.parametrize("seed", range(campaign.tries(2)))
def test_rows_are_those_of_the_join_of_tables(
    how: str, forgetful: float, band: int | None, seed: int
) -> None:
    draw = random.Random(f"{how} {seed}")  # noqa: S311 - for tests
    lower = draw.choice([draw.randrange(-6, 4) * SECOND, draw.randrange(-6 * SECOND, 4 * SECOND)])
    upper = lower + draw.choice([draw.randrange(8) * SECOND, draw.randrange(8 * SECOND)])
    if band is not None:
        # Windows cannot have negative lengths.
        lower, upper = min(lower, 0), max(upper, 0)
    work = sides(how, lower, upper, band)
    bucket = Bucket(work)
    start = draw.choice([-60, 1_700_000_000]) * SECOND
    numbers = iter(range(10_000))
    pushed: tuple[list[pa.Table], list[pa.Table]] = ([SCHEMA.empty_table()], [SCHEMA.empty_table()])
    watermark = 0
    for number in range(draw.randrange(1, 10)):
        now = start + number * 5 * SECOND
        packs = []
        for side in (LEFT, RIGHT):
            for _ in range(draw.randrange(3)):
                table = rows(draw, now, draw.randrange(12), numbers)
                packs.append(pack(side, table))
                pushed[side].append(table)
        if draw.random() < 0.8:
            watermark = max(watermark, now - 6 * SECOND, 0)
        if draw.random() < forgetful:
            store._warm.clear()
        bucket.batch(watermark, *packs)
    for _ in range(2):
        bucket.batch(max(start, 0) + 1000 * SECOND)
    late = [{row["v"] for row in read(bucket.output, side)} for side in (LEFT, RIGHT)]
    used = [
        table.filter(pa.array([v not in late[side] for v in table["v"].to_pylist()], pa.bool_()))
        for side, table in enumerate(map(pa.concat_tables, pushed))
    ]
    assert [len(gone) for gone in late] == [
        sum(table.num_rows for table in tables) - kept.num_rows
        for tables, kept in zip(pushed, used, strict=True)
    ]
    expected = work.join.table(*used)
    assert counted(read(bucket.output, None)) == counted(expected.to_pylist())
    assert bucket.entries == {}
    assert bucket.header is None


CONDITIONS = {
    "interval": {},
    "where": {"where": "(left.v + right.v) % 3 = 0"},
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("more", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("reach", [(-30, 0), (0, 30), (-30, 30)], ids=str)
def test_workers_that_take_a_bucket_over_do_not_find_old_pairs_again(
    how: str, more: dict[str, str], reach: tuple[int, int]
) -> None:
    join = sides(how, *(end * SECOND for end in reach))
    join = dataclasses.replace(join, join=join.join.replace(**more))
    bucket = Bucket(join)
    tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    for batch in range(8):
        # Each key has 20 rows per side and second.
        ts = [(100 + batch) * SECOND + at * 25_000 for at in range(40)]
        for side in (LEFT, RIGHT):
            numbers = range(40 * batch + side, 40 * batch + side + 40)
            tables[side].append(pa.table([[1, 2] * 20, ts, [*numbers]], schema=SCHEMA))
        store._warm.clear()
        bucket.batch((99 + batch) * SECOND, *(pack(side, tables[side][-1]) for side in range(2)))
    # Left rows are pending until `upper` has passed, and right rows until `-lower` has passed.
    lower, upper = reach
    waits = (upper > 0 and how not in ("inner", "right")) or (
        lower < 0 and how in ("right", "full")
    )
    if not waits:
        [warm] = store._warm.values()
        assert isinstance(warm.bucket, operators._Join)
        found = sum(warm.bucket.native.stats()["comparisons"])
        # Each side's 40 rows in the last second are compared with the earlier rows of their keys.
        assert found <= 40 * (20 * 7) * sum(end != 0 for end in reach)
    bucket.batch(1000 * SECOND)
    expected = join.join.table(*map(pa.concat_tables, tables))
    assert counted(read(bucket.output, None)) == counted(expected.to_pylist())


def one_row(second: int, key: int = 1) -> pa.Table:
    return pa.table([[key], [second * SECOND], [second]], schema=SCHEMA)


def test_a_batch_that_was_not_committed_leaves_no_trace() -> None:
    bucket = Bucket(sides("full", -2 * SECOND, 2 * SECOND))
    bucket.batch(0, pack(LEFT, one_row(10)), pack(RIGHT, one_row(11)))
    states = bucket.tester.handle
    before = copy.deepcopy(states.map_states["entries"].state)
    timers = copy.deepcopy(states._timers)
    bucket.output.clear()
    # The task of this batch fails at its end, and runs again.
    bucket.batch(12 * SECOND, pack(LEFT, one_row(12)))
    first = list(bucket.output)
    states.map_states["entries"].state = before
    states._timers = timers
    bucket.output.clear()
    bucket.batch(12 * SECOND, pack(LEFT, one_row(12)))
    assert read(bucket.output, None) == read(first, None)
    bucket.output.clear()
    bucket.batch(100 * SECOND)
    assert counted(read(bucket.output, None)) == {
        (1, *one_row(12)["ts"].to_pylist(), 12, *one_row(11)["ts"].to_pylist(), 11): 1
    }


def test_rows_are_stored_once_and_removed_when_they_cannot_matter() -> None:
    bucket = Bucket(sides("inner", -5 * SECOND, 0))
    stored = bucket.tester.handle.map_states["entries"]
    written = []
    update = stored.updateValue
    stored.updateValue = lambda key, value: (written.append(key), update(key, value))[1]
    for second in range(20):
        bucket.batch(
            max(0, second - 1) * SECOND, pack(LEFT, one_row(second)), pack(RIGHT, one_row(second))
        )
        # A right row matters for five seconds after its time.
        assert len(bucket.entries) <= 8
    assert [key for key in written if key != store._HEADER] == [(entry,) for entry in range(20)]


def test_a_silent_bucket_is_forgotten() -> None:
    bucket = Bucket(sides("inner", -5 * SECOND, 0))
    bucket.batch(0, pack(LEFT, one_row(10)))
    bucket.batch(16 * SECOND)
    assert bucket.entries == {}
    assert bucket.header is None
    assert list(bucket.tester.handle._timers.listTimers(0)) == []


def test_state_of_another_query_is_refused() -> None:
    join = sides("inner", -5 * SECOND, 0)
    bucket = Bucket(join)
    bucket.batch(0, pack(LEFT, one_row(10)))
    bucket.tester.processor._work = dataclasses.replace(join, query="other")
    with pytest.raises(tidegate.StateError, match="state of another query"):
        bucket.batch(0, pack(LEFT, one_row(11)))


def test_state_of_another_number_of_buckets_is_refused_with_the_number_to_write() -> None:
    bucket = Bucket(sides("inner", -5 * SECOND, 0))
    bucket.batch(0, pack(LEFT, one_row(10)))
    bucket.tester.processor._places = (0, 1)
    with pytest.raises(tidegate.StateError, match=r"of 1 buckets, .* has 2; write partitions=1"):
        bucket.batch(0, pack(LEFT, one_row(11)))


def test_a_mark_refuses_state_of_another_query_wherever_rows_go() -> None:
    join = sides("inner", -5 * SECOND, 0)
    bucket = Bucket(join, MARK)
    bucket.batch(0, Row(side=LEFT, rows=None))
    bucket.batch(11 * SECOND, Row(side=LEFT, rows=None), Row(side=LEFT, rows=None))
    assert bucket.output == []
    assert list(bucket.tester.handle._timers.listTimers(MARK)) == []
    bucket.tester.processor._work = dataclasses.replace(join, query="other")
    with pytest.raises(tidegate.StateError, match="state of another query"):
        bucket.batch(11 * SECOND, Row(side=LEFT, rows=None))


def test_a_row_without_a_time_is_refused() -> None:
    bucket = Bucket(sides("inner", -5 * SECOND, 0))
    table = pa.table([[1], [None], [0]], schema=SCHEMA)
    with pytest.raises(tidegate.TidegateError, match="right: column 'ts' has a null"):
        bucket.batch(0, pack(RIGHT, table))


def test_joins_that_nobody_asks_for_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    store._warm.clear()
    bucket = Bucket(sides("inner", -5 * SECOND, 0))
    other = Bucket(dataclasses.replace(sides("inner", -5 * SECOND, 0), query="other"))
    bucket.batch(0, pack(LEFT, one_row(10)))
    assert len(store._warm) == 1
    monkeypatch.setattr(store, "_IDLE", -1.0)
    other.batch(0, pack(LEFT, one_row(10)))
    assert [warm.header for warm in store._warm.values()] == [other.header]


@pytest.mark.parametrize("rises", [True, False], ids=["watermark rises", "no watermark"])
def test_workers_keep_no_operators_of_former_micro_batches(
    monkeypatch: pytest.MonkeyPatch, *, rises: bool
) -> None:
    draw = random.Random(1)  # noqa: S311 - for tests
    join = sides("left", -5 * SECOND, 0)
    buckets = [Bucket(join, number) for number in range(8)]
    for bucket in buckets:
        bucket.tester.processor._places = tuple(range(8))
    workers: list[dict[store.Place, store.Warm]] = [{} for _ in range(4)]
    kept = []
    for second in range(60):
        # Spark may assign the task of a bucket to any worker.
        for bucket in buckets:
            monkeypatch.setattr(store, "_warm", draw.choice(workers))
            rows = pack(LEFT, one_row(second)), pack(RIGHT, one_row(second))
            bucket.batch((second if rises else 0) * SECOND, *rows)
        kept.append([len(worker) for worker in workers])
    assert max(map(max, kept)) <= 8
    if rises:
        # A worker keeps the buckets from the last two micro-batches that assigned it any.
        assert max(map(sum, kept)) <= 24
    for bucket in buckets:
        bucket.batch(1000 * SECOND)
        times = sorted(row["ts"] for row in read(bucket.output, None))
        pairs = sum(min(second, 5) + 1 for second in range(60))
        assert len(times) == pairs


def test_a_bucket_tells_its_rows_and_its_state() -> None:
    join = dataclasses.replace(sides("left", -5 * SECOND, 0), keys=((0,), (0,)))
    bucket = Bucket(join)
    bucket.batch(0, pack(LEFT, one_row(10)), pack(RIGHT, one_row(11)), pack(RIGHT, one_row(12)))
    assert [told["state_rows"] for told in bucket.numbers] == [3]
    store._warm.clear()
    bucket.batch(12 * SECOND, pack(LEFT, one_row(3)), pack(LEFT, one_row(13)))
    [told] = bucket.numbers
    stored = [part for _, parts in bucket.entries.values() for part in parts if part]
    assert told["came"] == 2
    assert told["set_aside"] == 1
    assert told["state_rows"] == 4
    assert told["state_bytes"] == sum(map(len, stored)) > 0
    assert told["hot_key"] is None
    bucket.batch(100 * SECOND)
    assert bucket.numbers[0]["state_rows"] == bucket.numbers[0]["state_bytes"] == 0


def test_copies_are_kept_but_did_not_come() -> None:
    bucket = Bucket(sides("inner", -5 * SECOND, 0))
    bucket.batch(0, pack(LEFT, one_row(10)), pack(RIGHT_COPY, one_row(9)))
    [told] = bucket.numbers
    assert (told["came"], told["state_rows"]) == (1, 2)


@pytest.mark.parametrize(("share", "is_hot"), [(0.4, False), (0.8, True)])
def test_a_key_with_most_of_many_rows_is_hot(share: float, *, is_hot: bool) -> None:
    join = dataclasses.replace(sides("inner", -5 * SECOND, 0), keys=((0,), (0,)))
    count = 20_000
    keys = [7 if number % 10 < 10 * share else number for number in range(count)]
    table = pa.table([keys, [10 * SECOND] * count, range(count)], schema=SCHEMA)
    bucket = Bucket(join)
    bucket.batch(0, pack(LEFT, one_row(10)), pack(RIGHT, table))
    [told] = bucket.numbers
    assert told["hot_key"] == ("7" if is_hot else None)
    assert is_hot == (abs(told["of_hot_key"] - share * count) < 0.1 * count)
    # Nothing is reported for few rows.
    bucket.batch(0, pack(RIGHT, table.slice(0, 5_000)))
    assert bucket.numbers[0]["hot_key"] is None


def test_a_condensed_state_tells_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SPARE", 0)
    work = operators.Sides(
        join=join_query("asof_join", {"on": "ts", "by": "k"}),
        max_width=None,
        schemas=(SCHEMA, SCHEMA),
        times=(1, 1),
        lasting=(0, None),
        query="q",
        keeps_late=False,
        gives_left_rows=True,
        ties="ts",
        condenses=True,
    )
    bucket = Bucket(work)
    kept = []
    for second in range(1, 80):
        bucket.batch(second * SECOND, pack(RIGHT, one_row(second)))
        [told] = bucket.numbers
        kept.append(told["state_rows"])
        stored = [part for _, parts in bucket.entries.values() for part in parts if part]
        assert told["state_bytes"] == sum(map(len, stored))
    # The state has the last row of the key, that of the watermark, and others until a snapshot.
    assert 2 <= min(kept[40:]) < max(kept) < 40
