"""Streams that are divided by time, without Spark: together, many buckets find each row once.

The rows of a micro-batch are packed as in Spark's tasks, and each bucket receives its packs.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row

import campaign
from tidegate import agg
from tidegate._tidegate import join_query

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark before 4.2 has no such test double"
)

from buckets import Bucket, counted, read, us
from tidegate.spark.layout.cycle import Cycle
from tidegate.spark.layout.hashed_times import HashedTimes
from tidegate.spark.layout.layout import Layout, Reach
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.stream import operators, store
from tidegate.spark.stream.aggregate import merged
from tidegate.spark.worker.aggregate import Aggregation, in_order
from tidegate.spark.worker.pack import LEFT, RIGHT, Packer
from tidegate.spark.worker.partials import MERGED

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
SEEDS = range(campaign.tries(3 if campaign.ALL else 1))


class Buckets:
    """The buckets of a stream, and their output."""

    def __init__(self, work: operators.Work, layout: Layout, times: Sequence[int]) -> None:
        self._work = work
        self._layout = layout
        self._times = times
        self._buckets: dict[int, Bucket] = {}

    def batch(self, watermark: int, *sides: tuple[int, pa.Table]) -> None:
        """Process a micro-batch of rows by side; every bucket with state receives the watermark."""
        packs = defaultdict(list)
        for side, table in sides:
            packer = Packer(self._layout, side, self._times[side], TimeAxis(days=False), extra=0)
            for batch in packer.run(iter(table.combine_chunks().to_batches())):
                for row in batch.to_pylist():
                    packs[row["partition"]].append(Row(side=row["side"], rows=row["rows"]))
        for number in packs.keys() - self._buckets.keys():
            self._buckets[number] = Bucket(self._work, number)
        for number, bucket in self._buckets.items():
            bucket.batch(watermark, *packs[number])

    @property
    def output(self) -> list[Row]:
        return [row for bucket in self._buckets.values() for row in bucket.output]

    def forget(self) -> None:
        """Clear the output."""
        for bucket in self._buckets.values():
            bucket.output.clear()

    @property
    def used(self) -> int:
        """Return the number of buckets that have received rows."""
        return len(self._buckets)

    def is_empty(self) -> bool:
        return all(bucket.entries == {} for bucket in self._buckets.values())


def rows(draw: random.Random, first: int, count: int, numbers: Iterator[int]) -> pa.Table:
    """Draw rows with times close to `first`, some equal, some just before a whole second."""
    ts = [first + draw.randrange(-12 * SECOND, 6 * SECOND) for _ in range(count)]
    ts = [draw.choice([time, time // SECOND * SECOND - draw.randrange(2)]) for time in ts]
    key = [draw.choice([1, 2, None]) for _ in range(count)]
    return pa.table([key, ts, [next(numbers) for _ in range(count)]], schema=SCHEMA)


def full_join(lower: int, upper: int, by: str | None) -> operators.Sides:
    names = ["k", "ts", "v", "k_right", "ts_right", "v_right"]
    if by is not None:
        names.remove("k_right")
    arguments = {"on": "ts", "lower": us(lower), "upper": us(upper), "by": by, "how": "full"}
    width = upper - lower
    return operators.Sides(
        join=join_query("interval_join", {**arguments, "columns": names}),
        max_width=None,
        schemas=(SCHEMA, SCHEMA),
        times=(1, 1),
        lasting=(max(0, upper, width), max(0, -lower, width)),
        query="q",
        keeps_late=True,
        home=("l______________", "r______________"),
    )


@pytest.mark.parametrize("forgetful", [0.0, 0.4, 1.0], ids=["warm", "some moved", "all moved"])
@pytest.mark.parametrize("by", ["k", None])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_full_join_gives_each_row_once(forgetful: float, by: str | None, seed: int) -> None:
    draw = random.Random(f"{by} {seed}")  # noqa: S311 - for tests
    lower = draw.randrange(-3 * SECOND, 2 * SECOND)
    upper = lower + draw.choice([0, 1, draw.randrange(2 * SECOND)])
    work = full_join(lower, upper, by)
    cycle = Cycle.of(draw.choice([1, 2, 3, 8]), "both", Reach.of(lower, upper), keyed=False)
    buckets = Buckets(work, cycle, work.times)
    numbers = iter(range(10_000))
    pushed: tuple[list[pa.Table], list[pa.Table]] = ([SCHEMA.empty_table()], [SCHEMA.empty_table()])
    watermark = 0
    for number in range(draw.randrange(2, 10)):
        now = START + number * 5 * SECOND
        sides = []
        for side in (LEFT, RIGHT):
            table = rows(draw, now, draw.randrange(24), numbers)
            sides.append((side, table))
            pushed[side].append(table)
        if draw.random() < 0.8:
            watermark = max(watermark, now - 6 * SECOND)
        if draw.random() < forgetful:
            store._warm.clear()
        buckets.batch(watermark, *sides)
    for _ in range(2):
        buckets.batch(START + 1000 * SECOND)
    late = [[row["v"] for row in read(buckets.output, side)] for side in (LEFT, RIGHT)]
    assert all(len(set(gone)) == len(gone) for gone in late), "a late row was returned twice"
    used = [
        table.filter(pc.invert(pc.is_in(table["v"], pa.array(late[side], pa.int64()))))
        for side, table in enumerate(map(pa.concat_tables, pushed))
    ]
    expected = work.join.table(*used)
    assert counted(read(buckets.output, None)) == counted(expected.to_pylist())
    assert buckets.is_empty()


def test_the_slices_of_a_full_join_are_dealt_to_all_buckets() -> None:
    work = full_join(-SECOND, 0, "k")
    cycle = Cycle.of(4, "both", Reach.of(-SECOND, 0), keyed=False)
    buckets = Buckets(work, cycle, work.times)
    times = [START + 8 * SECOND * number for number in range(16)]
    table = pa.table([[1] * 16, times, range(16)], schema=SCHEMA)
    buckets.batch(0, (LEFT, table), (RIGHT, table))
    assert buckets.used == 4
    buckets.batch(START + 1000 * SECOND)
    assert len(read(buckets.output, None)) == 16


TIMED = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("odd", pa.bool_())])
IN_ORDER = {
    "n": agg.count(),
    "mean": agg.mean("v"),
    "first": agg.first("v"),
    "odd": agg.last("odd"),
}
IN_SLICES = {
    "n": agg.count(),
    "few": agg.count(where="v % 3 = 0"),
    "sum": agg.sum("v", where="v % 2 = 0"),
    "least": agg.min("v"),
    "odd": agg.any("odd"),
}


def windows(
    query: Aggregation, lengths: tuple[int, int, int], cycle: Cycle | None
) -> operators.Windows:
    """Return the work of a stream without a key, with partial aggregates if the order allows it."""
    size, advance, _ = lengths
    width = math.gcd(size, advance)
    common = {
        "schema": TIMED,
        "sources": 1,
        "source": None,
        "longest": size,
        "query": "q",
        "keeps_late": True,
        "cycle": cycle,
    }
    if query.aggs is not IN_SLICES:
        return operators.Windows(kept_schema=TIMED, slices=None, final=query, **common)
    parts = {name: agg.Aggregate(MERGED[one.function], name) for name, one in IN_SLICES.items()}
    slices = replace(query, size=us(width), advance=None)
    kept = slices.run([TIMED.empty_table()]).select(["window_start", *IN_SLICES]).schema
    final = replace(query, on="window_start", aggs=parts, where=None)
    return operators.Windows(kept_schema=kept, slices=slices, final=final, **common)


def timed(draw: random.Random, first: int, count: int, numbers: Iterator[int]) -> pa.Table:
    ts = [first + draw.randrange(-12 * SECOND, 6 * SECOND) for _ in range(count)]
    ts = [draw.choice([time, time // SECOND * SECOND - draw.randrange(2)]) for time in ts]
    odd = [draw.choice([True, False, None]) for _ in range(count)]
    return pa.table([ts, [next(numbers) for _ in range(count)], odd], schema=TIMED)


def of_one_watermark(buckets: Buckets, query: Aggregation) -> Iterator[dict[str, object]]:
    """Yield the results of the task that merges the window parts of a micro-batch."""
    tables = [pa.ipc.open_stream(row.rows).read_all() for row in buckets.output if row.late is None]
    if tables:
        step = replace(query, size=us(1), advance=None, offset=None)
        yield from merged(pa.concat_tables(tables), step, "end__").to_pylist()


@pytest.mark.parametrize("forgetful", [0.0, 0.4, 1.0], ids=["warm", "some moved", "all moved"])
@pytest.mark.parametrize(
    ("aggs", "division"), [(IN_ORDER, "slices"), (IN_SLICES, "slices"), (IN_SLICES, "parts")]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_windows_without_a_key_come_once(
    forgetful: float, aggs: dict[str, agg.Aggregate], division: str, seed: int
) -> None:
    draw = random.Random(f"{division} {seed}")  # noqa: S311 - for tests
    size, advance = (draw.randrange(1, 12) * SECOND // 4 for _ in range(2))
    lengths = size, advance, draw.randrange(-5, 5)
    query = Aggregation("ts", *map(us, lengths), None, (), aggs)
    count = draw.choice([1, 2, 3, 8])
    cycle = Cycle.of(count, "right", Reach.of(0, size - 1), keyed=False)
    layout = cycle if division == "slices" else HashedTimes.of(count)
    work = windows(query, lengths, cycle if division == "slices" else None)
    buckets = Buckets(work, layout, (0, 0))
    numbers = iter(range(10_000))
    pushed, watermark = [TIMED.empty_table()], 0
    found, late = [], []
    batches = draw.randrange(2, 10)
    for number in range(batches + 2):
        now = START + number * 5 * SECOND
        sides = []
        if number < batches:
            pushed.append(timed(draw, now, draw.randrange(24), numbers))
            sides.append((RIGHT, pushed[-1]))
            watermark = max(watermark, draw.choice([0, now - 6 * SECOND]))
        else:
            watermark = START + 1000 * SECOND
        if draw.random() < forgetful:
            store._warm.clear()
        buckets.forget()
        buckets.batch(watermark, *sides)
        late += [row["v"] for row in read(buckets.output, 0)]
        if division == "parts":
            found += of_one_watermark(buckets, work.final)
        else:
            found += read(buckets.output, None)
    assert len(set(late)) == len(late), "a late row was returned twice"
    every = pa.concat_tables(pushed)
    used = every.filter(pc.invert(pc.is_in(every["v"], pa.array(late, pa.int64()))))
    expected = query.run([in_order(used, "ts", days=False)])
    assert counted(found) == counted(expected.to_pylist())
    assert buckets.is_empty()


@pytest.mark.parametrize(
    "layout", [HashedTimes.of(8), Cycle.of(8, "right", Reach.of(0, 1), keyed=False)]
)
def test_rows_without_a_key_go_to_all_buckets(layout: Layout) -> None:
    lengths = 2, 2, 0
    query = Aggregation("ts", *map(us, lengths), None, (), IN_SLICES)
    cycle = layout if isinstance(layout, Cycle) else None
    buckets = Buckets(windows(query, lengths, cycle), layout, (0, 0))
    # Times are a second apart, or a slice of the cycle apart.
    step = SECOND if cycle is None else cycle.width
    times = [START + number * step for number in range(200)]
    rows = pa.table([times, range(200), [None] * 200], schema=TIMED)
    buckets.batch(0, (RIGHT, rows))
    assert buckets.used == 8
