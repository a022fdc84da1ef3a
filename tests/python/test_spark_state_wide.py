"""Streams whose intervals end at columns, without Spark: rows that are too wide.

PySpark's in-memory test double feeds buckets. The output is the native join of the rows that are
neither late nor wide.
"""

import itertools
import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import campaign
import tidegate

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark before 4.2 has no such test double"
)

from buckets import Bucket, counted, pack, read, us
from cases import grid
from tidegate._tidegate import join_query
from tidegate.spark.stream import operators, store
from tidegate.spark.worker.pack import LEFT, RIGHT

SECOND = 1_000_000
WIDTH = 9 * SECOND
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("v", pa.int64()),
        ("near", pa.duration("us")),
    ]
)
HOWS = ("inner", "left", "right", "full", "semi", "anti")
ENDS = {
    "left": ({"lower": us(-2 * SECOND), "upper": tidegate.left.near}, (2 * SECOND, WIDTH)),
    "right": ({"lower": -tidegate.right.near, "upper": us(SECOND)}, (WIDTH, SECOND)),
    "both": ({"lower": -tidegate.left.near, "upper": tidegate.right.near}, (WIDTH, WIDTH)),
}


def sides(how: str, ends: str) -> operators.Sides:
    arguments, (before, after) = ENDS[ends]
    width = before + after
    return operators.Sides(
        join=join_query("interval_join", {"on": "ts", "by": "k", "how": how, **arguments}),
        max_width=us(WIDTH),
        schemas=(SCHEMA, SCHEMA),
        times=(1, 1),
        lasting=(
            max(after, width if how in ("right", "full") else 0),
            max(before, 0 if how in ("inner", "right") else width),
        ),
        query="q",
        keeps_late=True,
    )


def rows(draw: random.Random, first: int, count: int, number: int) -> pa.Table:
    ts = [first + draw.randrange(-8 * SECOND, 6 * SECOND) for _ in range(count)]
    near = [draw.choice([None, 0, SECOND, WIDTH, WIDTH + 1, 60 * SECOND]) for _ in range(count)]
    keys = [draw.choice([1, 2, None]) for _ in range(count)]
    return pa.table([keys, ts, [number + at for at in range(count)], near], schema=SCHEMA)


@grid(joined=[*itertools.product(HOWS, ENDS)], forgetful=[0.0, 0.5])
@pytest.mark.parametrize("seed", range(campaign.tries(1)))
def test_rows_that_are_too_wide_are_set_aside(
    joined: tuple[str, str], forgetful: float, seed: int
) -> None:
    how, ends = joined
    draw = random.Random(f"{how} {ends} {seed}")  # noqa: S311 - for tests
    work = sides(how, ends)
    bucket = Bucket(work)
    pushed: tuple[list[pa.Table], list[pa.Table]] = ([SCHEMA.empty_table()], [SCHEMA.empty_table()])
    for batch in range(6):
        now = (100 + 5 * batch) * SECOND
        packs = []
        for side in (LEFT, RIGHT):
            table = rows(draw, now, draw.randrange(14), 100 * batch)
            packs.append(pack(side, table))
            pushed[side].append(table)
        if draw.random() < forgetful:
            store._warm.clear()
        bucket.batch(now - 6 * SECOND, *packs)
    bucket.batch(10_000 * SECOND)
    used, seen = [], 0
    for side, tables in enumerate(pushed):
        every = pa.concat_tables(tables)
        late = {row["v"] for row in read(bucket.output, side)}
        in_time = every.filter(
            pa.array([v not in late for v in every["v"].to_pylist()], pa.bool_())
        )
        is_wide = pa.array([False] * in_time.num_rows)
        if ends in (("left", "both") if side == LEFT else ("right", "both")):
            near = in_time["near"].cast(pa.int64())
            is_wide = pc.fill_null(pc.greater(near, WIDTH), fill_value=False)
        wide = in_time.filter(is_wide)
        assert counted(read(bucket.output, side + 2)) == counted(wide.to_pylist())
        used.append(in_time.filter(pc.invert(is_wide)))
        seen += wide.num_rows
    assert seen > 0
    expected = work.join.table(*used)
    assert counted(read(bucket.output, None)) == counted(expected.to_pylist())
    assert bucket.entries == {}


def test_wide_rows_are_dropped_if_late_ones_are() -> None:
    work = operators.Sides(**{**vars(sides("inner", "left")), "keeps_late": False})
    bucket = Bucket(work)
    wide = pa.table([[1], [SECOND], [1], [60 * SECOND]], schema=SCHEMA)
    bucket.batch(0, pack(LEFT, wide))
    assert bucket.output == []
    assert bucket.entries == {}
