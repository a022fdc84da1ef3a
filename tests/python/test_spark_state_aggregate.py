"""The state of streaming aggregations without Spark: buckets whose windows open and close."""

import copy
import dataclasses
import math
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import campaign
import tidegate
from tidegate import agg

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark before 4.2 has no such test double"
)

from buckets import Bucket, counted, pack, read, us
from tidegate.spark.stream import store
from tidegate.spark.stream.operators import Windows
from tidegate.spark.worker.aggregate import Aggregation, in_order

SECOND = 1_000_000
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("v", pa.int64()),
        ("source", pa.int16()),
    ]
)

# For the second kind, partial aggregates are stored.
IN_ORDER = {
    "n": agg.count(),
    "sum": agg.sum("x"),
    "mean": agg.mean("v"),
    "var": agg.var("x"),
    "first": agg.first("x"),
    "last": agg.last("v", where="x > 0.3"),
}
IN_SLICES = {
    "n": agg.count(),
    "few": agg.count(where="x > 0.6"),
    "sum": agg.sum("v"),
    "least": agg.min("x"),
    "most": agg.max("v", where="x > 0.2"),
}


def work(
    aggs: dict[str, Any], size: int, advance: int, offset: int, where: str | None = None
) -> Windows:
    lengths = (us(size), us(advance), us(offset))
    query = Aggregation("ts", *lengths, None, ("k",), aggs, where)
    common = {
        "schema": SCHEMA,
        "source": "source",
        "longest": size,
        "query": "q",
        "keeps_late": True,
    }
    if aggs is not IN_SLICES:
        return Windows(kept_schema=SCHEMA, slices=None, final=query, sources=2, **common)
    combined = {"n": "sum", "few": "sum", "sum": "sum", "least": "min", "most": "max"}
    slices = dataclasses.replace(query, size=us(math.gcd(size, advance)), advance=None)
    merged = {name: agg.Aggregate(function, name) for name, function in combined.items()}
    final = dataclasses.replace(query, on="window_start", aggs=merged, where=None)
    kept = slices.run([SCHEMA.empty_table()]).select(["window_start", "k", *aggs])
    return Windows(kept_schema=kept.schema, slices=slices, final=final, sources=1, **common)


def rows(draw: random.Random, first: int, count: int) -> pa.Table:
    # Few times and values, so that many are equal.
    ts = [first + draw.randrange(-24, 12) * SECOND // 2 for _ in range(count)]
    k = [draw.choice(["a", "b", None]) for _ in range(count)]
    x = [draw.choice([0.1, 0.2, 0.7, 1e17, None]) for _ in range(count)]
    v = [draw.randrange(5) for _ in range(count)]
    source = [draw.randrange(2) for _ in range(count)]
    return pa.table([ts, k, x, v, source], schema=SCHEMA)


def expected(query: Aggregation, used: pa.Table) -> pa.Table:
    streams = [used.filter(pc.equal(used["source"], number)) for number in range(2)]
    return query.run([in_order(stream, "ts", days=False) for stream in streams])


def fed(
    bucket: Bucket, draw: random.Random, start: int, *, batches: int, most: int, forgetful: float
) -> list[pa.Table]:
    """Give a bucket micro-batches of fewer rows a table than `most`, and return the rows."""
    pushed, watermark = [SCHEMA.empty_table()], 0
    for number in range(batches):
        now = start + number * 5 * SECOND
        tables = [rows(draw, now, draw.randrange(most)) for _ in range(draw.randrange(3))]
        pushed += tables
        if draw.random() < 0.8:
            watermark = max(watermark, now - draw.randrange(2, 8) * SECOND, 0)
        if draw.random() < forgetful:
            store._warm.clear()
        bucket.batch(watermark, *(pack(1, table) for table in tables))
    return pushed


@pytest.mark.parametrize("aggs", [IN_ORDER, IN_SLICES], ids=["rows", "slices"])
@pytest.mark.parametrize("forgetful", [0.0, 0.4, 1.0], ids=["warm", "some moved", "all moved"])
@pytest.mark.parametrize("seed", range(campaign.tries(5)))
def test_rows_are_those_of_the_aggregation_of_tables(
    aggs: dict[str, Any], forgetful: float, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311 - for tests
    size, advance = (draw.randrange(1, 40) * SECOND // 2 for _ in range(2))
    query = work(aggs, size, advance, draw.randrange(-5, 5), draw.choice([None, "v > 0"]))
    bucket = Bucket(query)
    start = draw.choice([-60, 1_700_000_000]) * SECOND
    batches = draw.randrange(1, 12)
    pushed = fed(bucket, draw, start, batches=batches, most=30, forgetful=forgetful)
    for _ in range(2):
        bucket.batch(max(start, 0) + 1000 * SECOND)
    late, every = counted(read(bucket.output, 0)), counted(pa.concat_tables(pushed).to_pylist())
    assert late <= every
    used = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in (every - late).elements()], SCHEMA
    )
    batch = Aggregation(
        "ts",
        us(size),
        us(advance),
        query.final.offset,
        None,
        ("k",),
        aggs,
        (query.slices or query.final).where,
    )
    assert counted(read(bucket.output, None)) == counted(expected(batch, used).to_pylist())
    assert bucket.entries == {}
    assert bucket.header is None


def one(second: float, v: int = 1) -> pa.Table:
    return pa.table([[int(second * SECOND)], ["a"], [0.5], [v], [0]], schema=SCHEMA)


@pytest.mark.parametrize("aggs", [IN_ORDER, IN_SLICES], ids=["rows", "slices"])
def test_a_window_comes_once_the_watermark_has_passed_its_end(aggs: dict[str, Any]) -> None:
    bucket = Bucket(work(aggs, 10 * SECOND, 5 * SECOND, 0))
    bucket.batch(0, pack(1, one(12)))
    # The watermark is within the slice of the first row, so another row of it is not late.
    bucket.batch(13 * SECOND, pack(1, one(13)))
    assert bucket.output == []
    bucket.batch(15 * SECOND, pack(1, one(14.999)))
    assert [row["n"] for row in read(bucket.output, None)] == [2]
    assert [row["v"] for row in read(bucket.output, 0)] == [1]
    bucket.batch(19 * SECOND)
    assert len(read(bucket.output, None)) == 1
    bucket.batch(20 * SECOND)
    assert [row["n"] for row in read(bucket.output, None)] == [2, 2]


def test_a_batch_that_was_not_committed_leaves_no_trace() -> None:
    bucket = Bucket(work(IN_SLICES, 10 * SECOND, 5 * SECOND, 0))
    bucket.batch(0, pack(1, one(12, v=3)))
    states = bucket.tester.handle
    before = copy.deepcopy(states.map_states["entries"].state)
    # The task of this batch fails at its end, and runs again.
    bucket.batch(0, pack(1, one(13, v=4)))
    states.map_states["entries"].state = before
    bucket.batch(0, pack(1, one(13, v=4)))
    bucket.batch(30 * SECOND)
    assert [row["sum"] for row in read(bucket.output, None)] == [7, 7]


def test_slices_are_stored_and_not_rows() -> None:
    sizes = []
    for aggs in (IN_ORDER, IN_SLICES):
        bucket = Bucket(work(aggs, 10 * SECOND, 5 * SECOND, 0))
        bucket.batch(0, pack(1, pa.concat_tables([one(12)] * 1_000)))
        [(_, [stored])] = bucket.entries.values()
        sizes.append(len(stored))
    assert sizes[1] < sizes[0] / 10


def of_sessions(aggs: dict[str, Any], length: int) -> Windows:
    query = Aggregation("ts", None, None, None, us(length), ("k",), aggs)
    return Windows(
        schema=SCHEMA,
        kept_schema=SCHEMA,
        slices=None,
        final=query,
        sources=2,
        source="source",
        longest=None,
        query="q",
        keeps_late=True,
    )


@pytest.mark.parametrize("forgetful", [0.0, 0.5, 1.0], ids=["warm", "some moved", "all moved"])
@pytest.mark.parametrize("spare", [0, 2_000, 1 << 16])
def test_sessions_are_those_of_the_aggregation_of_tables(
    monkeypatch: pytest.MonkeyPatch, forgetful: float, spare: int
) -> None:
    monkeypatch.setattr(store, "_SPARE", spare)
    for seed in range(campaign.tries(5 if campaign.ALL else 2)):
        draw = random.Random(f"{spare} {seed}")  # noqa: S311 - for tests
        query = of_sessions(IN_ORDER, draw.randrange(1, 8) * SECOND // 2)
        bucket = Bucket(query)
        start = 1_700_000_000 * SECOND
        pushed = fed(bucket, draw, start, batches=12, most=10, forgetful=forgetful)
        for _ in range(2):
            bucket.batch(start + 1000 * SECOND)
        late, every = counted(read(bucket.output, 0)), counted(pa.concat_tables(pushed).to_pylist())
        assert late <= every
        in_time = [dict(zip(SCHEMA.names, row, strict=True)) for row in (every - late).elements()]
        used = pa.Table.from_pylist(in_time, SCHEMA)
        sessions = expected(query.final, used)
        assert sessions.num_rows > 5
        assert counted(read(bucket.output, None)) == counted(sessions.to_pylist())


@pytest.mark.parametrize("forgetful", [False, True], ids=["warm", "moved"])
def test_a_session_that_goes_on_keeps_its_state_and_not_its_rows(
    monkeypatch: pytest.MonkeyPatch, *, forgetful: bool
) -> None:
    monkeypatch.setattr(store, "_SPARE", 4_000)
    draw = random.Random(1)  # noqa: S311 - for tests
    bucket = Bucket(of_sessions({"n": agg.count(), "most": agg.max("x")}, 60 * SECOND))
    sizes = []
    for number in range(60):
        now = (1_700_000_000 + number * 10) * SECOND
        table = rows(draw, now, 200)
        bucket.batch(now - 20 * SECOND, pack(1, table))
        if forgetful:
            store._warm.clear()
        entries = bucket.entries.values()
        sizes.append(sum(len(part) for _, parts in entries for part in parts if part))
    assert read(bucket.output, None) == []
    assert max(sizes[30:]) < 1.5 * max(sizes[:30])
    bucket.batch((1_700_000_000 + 2_000) * SECOND)
    assert sum(row["n"] for row in read(bucket.output, None)) == 60 * 200


def test_a_row_without_a_time_is_refused() -> None:
    table = pa.table([[None], ["a"], [0.5], [1], [0]], schema=SCHEMA)
    with pytest.raises(tidegate.TidegateError, match="streams: column 'ts' has a null"):
        Bucket(work(IN_ORDER, 10, 10, 0)).batch(0, pack(1, table))
