"""Punctuations as rows of the results, for consumers that request them."""

import queue

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.int64())])
ALGORITHMS = ["auto", "scalejoin-gates", "low-latency-handshake", "handshake"]


def rows(ts):
    return pa.table({"ts": ts, "x": [one % 3 for one in ts]}, schema=SCHEMA)


def new(algorithm="auto", **more):
    query = {"on": "ts", "window": 5, "where": "left.x = right.x", "threads": 2, "pin": False}
    return tg.WindowJoin(SCHEMA, SCHEMA, algorithm=algorithm, **query | more)


def split(batches):
    """Return the results, and punctuations with the number of results before each."""
    results, punctuations, count = [], [], 0
    for batch in batches:
        assert batch.schema.names[-1] == "watermark"
        watermarks = batch.column("watermark")
        if watermarks.null_count == batch.num_rows:
            results.append(batch.drop_columns(["watermark"]))
            count += batch.num_rows
            continue
        # A punctuation is a batch of one row.
        assert batch.num_rows == 1
        assert all(column.null_count == 1 for column in batch.columns[:-1])
        punctuations.append((watermarks[0].as_py(), count))
    return results, punctuations


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(
    left=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    right=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    size=st.integers(1, 9),
)
def test_no_result_comes_below_a_punctuation(algorithm, left, right, size):
    wanted = new()
    for source, side in zip(wanted.sources, (left, right), strict=True):
        source.push(rows(sorted(side)))
        source.close()
    wanted = pa.Table.from_batches(list(wanted), wanted.schema)
    join, found = new(algorithm), []
    sides = [sorted(left), sorted(right)]
    with join.running(found.append, punctuations=True):
        while any(sides):
            for source, side in zip(join.sources, sides, strict=True):
                if side:
                    source.push(rows(side[:size]))
                    del side[:size]
    results, punctuations = split(found)
    names = wanted.schema.names
    assert (
        pa.Table.from_batches(results, found[0].schema.remove(len(names)))
        .cast(pa.schema([pa.field(f.name, f.type) for f in wanted.schema]))
        .to_pydict()
        == wanted.to_pydict()
        if found
        else wanted.num_rows == 0
    )
    assert [one for one, _ in punctuations] == sorted({one for one, _ in punctuations})
    places = [
        max(pair)
        for pair in zip(*wanted.select(["ts", "ts_right"]).to_pydict().values(), strict=True)
    ]
    for watermark, before in punctuations:
        assert all(place >= watermark for place in places[before:])


# The handshake join holds back some results until later rows arrive.
@pytest.mark.parametrize("algorithm", ALGORITHMS[:3])
def test_a_punctuation_follows_the_results_before_it(algorithm):
    join, taken = new(algorithm, window=1), queue.Queue()
    with join.running(taken, punctuations=True):
        for source in join.sources:
            source.push(rows(list(range(0, 3_000, 3))))
        results, watermark = 0, None
        # The sources have reached the last time, and more rows may arrive at this time.
        while watermark is None or watermark < 2_997:
            batch = taken.get(timeout=60)
            last = batch.column("watermark")[-1].as_py()
            watermark = watermark if last is None else last
            results += batch.num_rows if last is None else 0
        assert results >= watermark // 3
    assert taken.queue[-1] is None


def test_promises_come_without_results():
    join, taken = new(), queue.Queue()
    with join.running(taken, punctuations=True):
        for source in join.sources:
            source.advance(1_000)
        batch = taken.get(timeout=60)
        assert batch.to_pylist() == [
            {"ts": None, "x": None, "ts_right": None, "x_right": None, "watermark": 1_000}
        ]


def test_a_full_queue_gets_the_results_and_a_later_punctuation():
    join, taken = new(window=0), queue.Queue(maxsize=1)
    found = []
    with join.running(taken, punctuations=True) as running:
        for source in join.sources:
            source.push(rows(list(range(100))))
            source.close()
        while (batch := taken.get(timeout=60)) is not None:
            found.append(batch)
        assert running.wait(60)
    results, _ = split(found)
    assert sum(batch.num_rows for batch in results) == 100


def test_any_type_has_a_punctuation():
    types = [
        pa.string_view(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string()),
        pa.struct([("a", pa.int8())]), pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.uuid(),
    ]  # fmt: skip
    fields = [("ts", pa.timestamp("ms")), *((f"c{at}", one) for at, one in enumerate(types))]
    merge, found = tg.Merge(pa.schema(fields)), []
    nulls = [pa.nulls(2, one) for one in types]
    with merge.running(found.append, punctuations=True):
        merge.sources[0].push(
            pa.Table.from_arrays(
                [pa.array([1, 2], pa.timestamp("ms")), *nulls], schema=pa.schema(fields)
            )
        )
    assert sum(batch.num_rows for batch in split(found)[0]) == 2


def test_a_source_and_a_column_of_that_name_are_refused():
    merge = tg.Merge(SCHEMA)
    with pytest.raises(tg.TidegateError, match="a source of another operator accepts only results"):
        new().running(merge.sources[0], punctuations=True)
    schema = pa.schema([("ts", pa.int64()), ("watermark", pa.int64())])
    with pytest.raises(tg.SchemaError, match="already have a column `watermark`"):
        tg.Merge(schema).run(print, punctuations=True)


def test_an_error_for_a_punctuation_leaves_no_result_twice():
    merge, found = tg.Merge(SCHEMA), []

    def take(batch):
        if batch.column("watermark").null_count == 0:
            message = "no punctuations, please"
            raise RuntimeError(message)
        found.append(batch)

    def drive():
        with merge.running(take, punctuations=True) as running:
            running.wait(60)

    for ts in range(0, 10, 5):
        merge.sources[0].push(rows(list(range(ts, ts + 5))))
        with pytest.raises(RuntimeError, match="no punctuations"):
            drive()
    merge.sources[0].close()
    found.extend(merge)
    ts = [one for batch in found for one in batch["ts"].to_pylist()]
    assert ts == list(range(10))
