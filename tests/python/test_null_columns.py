"""Columns of Arrow's type `null`, which polars uses for columns without any known value."""

import polars as pl
import pyarrow as pa
import pytest

from tidegate import (
    Aggregate,
    BandJoin,
    IntervalJoin,
    Merge,
    SchemaError,
    WindowJoin,
    agg,
    aggregate,
    asof_join,
    band_join,
    explain,
    interval_join,
    merge,
    overlap_join,
    window_join,
)

FRAME = pl.DataFrame({"ts": [1, 2, 3], "k": [1, 1, 2], "n": [None] * 3})
SCHEMA = FRAME.to_arrow().schema
TABLE = FRAME.to_arrow()
TIGHT = {"on": "ts", "lower": 0, "upper": 0}


def pushed(operator) -> pa.Table:
    for source in operator.sources:
        with source:
            source.push(FRAME)
    return pa.Table.from_batches(operator, operator.schema)


def test_polars_gives_null_columns():
    assert FRAME.schema["n"] == pl.Null
    assert SCHEMA.field("n").type == pa.null()


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        (lambda: interval_join(FRAME, FRAME, **TIGHT, by="k"), 3),
        (lambda: interval_join(FRAME, FRAME, on="ts", lower=9, upper=9, how="full"), 6),
        (lambda: window_join(FRAME, FRAME, on="ts", window=0), 3),
        (lambda: window_join(FRAME, FRAME, on="ts", window=0, algorithm="scalejoin"), 3),
        (lambda: band_join(FRAME, FRAME, on="ts", within=0), 3),
        (lambda: overlap_join(FRAME, FRAME, on=("ts", "ts")), 3),
        (lambda: pushed(IntervalJoin(SCHEMA, SCHEMA, **TIGHT)), 3),
        (lambda: pushed(WindowJoin(SCHEMA, SCHEMA, on="ts", window=0)), 3),
        (lambda: pushed(BandJoin(SCHEMA, SCHEMA, time="ts", window=0, on="ts", within=0)), 3),
    ],
)
def test_they_ride_along_in_joins(found, rows):
    table = found()
    assert table.num_rows == rows
    for name in ("n", "n_right"):
        assert table.schema.field(name).type == pa.null()
        assert table[name].to_pylist() == [None] * rows


def test_they_ride_along_in_merges():
    assert merge([FRAME, TABLE]).schema == SCHEMA
    assert merge([FRAME]).equals(pushed(Merge(SCHEMA)))
    assert merge([FRAME]).to_pylist() == FRAME.to_dicts()


AGGS = {name: getattr(agg, name)("n") for name in ("count", "first", "last", "min", "max")}


def test_aggregates_of_them():
    windows = {"on": "ts", "size": 10, "aggs": AGGS}
    expected = {"count": 0, "first": None, "last": None, "min": None, "max": None}
    for table in (aggregate(FRAME, **windows), pushed(Aggregate(SCHEMA, **windows))):
        (row,) = table.select(list(AGGS)).to_pylist()
        assert row == expected
        assert table.schema.field("first").type == pa.null()


@pytest.mark.parametrize("by", ["n", ["n", "k"], ["k", "n"]])
def test_null_is_a_group(by):
    windows = {"on": "ts", "size": 10, "by": by, "aggs": {"rows": agg.count()}}
    found = aggregate(FRAME, **windows)
    assert found["rows"].to_pylist() == ([3] if by == "n" else [2, 1])
    assert found.schema.field("n").type == pa.null()
    assert pushed(Aggregate(SCHEMA, **windows)).equals(found)


def test_null_keys_match_nothing():
    for name, key in [("k", "k"), ("s", "text"), ("d", "a dictionary")]:
        texts = pa.array(["a", "b", "a"])
        values = {"k": FRAME["k"], "s": texts, "d": texts.dictionary_encode()}[name]
        typed = TABLE.set_column(1, "k", values)
        for pair in (("n", "k"), ("k", "n")):
            for by in ([pair], [pair, ("ts", "ts")]):
                assert interval_join(typed, typed, **TIGHT, by=by).num_rows == 0, key
                full = interval_join(typed, typed, **TIGHT, by=by, how="full")
                assert full.num_rows == 6
    named = TABLE.rename_columns(["ts", "n", "k"])
    for sides in ((TABLE, named), (named, TABLE)):
        found = interval_join(*sides, **TIGHT, by="k", how="full")
        assert found.schema.field("k").type == pa.int64()
        assert sorted(found["k"].to_pylist(), key=str) == [1, 1, 2, None, None, None]
    assert interval_join(FRAME, FRAME, **TIGHT, by="n").num_rows == 0
    assert interval_join(FRAME, FRAME, **TIGHT, by="n", how="anti").num_rows == 3
    assert pushed(IntervalJoin(SCHEMA, SCHEMA, **TIGHT, by="n")).num_rows == 0


def test_a_snapshot_with_them():
    joining, going_on = (IntervalJoin(SCHEMA, SCHEMA, **TIGHT) for _ in range(2))
    joining.sources[0].push(FRAME)
    going_on.restore(joining.snapshot())
    with going_on.sources[1] as source:
        source.push(FRAME)
    going_on.sources[0].close()
    assert pa.Table.from_batches(going_on)["n"].to_pylist() == [None] * 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: interval_join(FRAME, FRAME, on="n", lower=0, upper=0),
            "left: column `n` is null, expected a time",
        ),
        (
            lambda: aggregate(FRAME, on="n", size=1, aggs=AGGS),
            "column `n` is null, expected a time",
        ),
        (lambda: merge([FRAME], on="n"), "column `n` is null, expected a time"),
        (lambda: Merge(SCHEMA, on="n"), "column `n` is null, expected a time"),
        (
            lambda: overlap_join(FRAME, FRAME, on=("ts", "n")),
            "column `n` is null, expected a time",
        ),
        (
            lambda: band_join(FRAME, FRAME, on="n", within=0),
            "left `n` is null, right `n` is null; expected two numbers",
        ),
        (
            lambda: aggregate(FRAME, on="ts", size=1, aggs={"s": agg.sum("n")}),
            "sum of column `n` of type null: expected numbers, durations or booleans",
        ),
    ],
)
def test_where_values_are_needed_the_column_is_named(call, text):
    with pytest.raises(SchemaError, match=text):
        call()


EMPTY = {
    "csv": "ts,k,n\n",
    "frame": pl.DataFrame({"ts": [], "k": [], "n": []}),
    "dict": {"ts": [], "k": [], "n": []},
}
DAYS = TABLE.set_column(0, "ts", pa.array([1, 2, 3], pa.timestamp("us")))


@pytest.fixture(params=EMPTY)
def empty(request, tmp_path):
    given = EMPTY[request.param]
    if request.param == "csv":
        (tmp_path / "empty.csv").write_text(given)
        return tmp_path / "empty.csv"
    return given


@pytest.mark.parametrize("full", [TABLE, DAYS], ids=["integers", "times"])
def test_an_empty_side_without_types_takes_those_of_the_other(empty, full):
    one = {"on": "ts", "lower": None, "upper": None}
    spans = (("ts", "ts"), ("ts", "ts"))
    for how, call in [
        ("left", lambda *sides, **more: interval_join(*sides, **one, **more)),
        ("left", lambda *sides, **more: window_join(*sides, on="ts", window=0, **more)),
        ("left", lambda *sides, **more: asof_join(*sides, on="ts", **more)),
        ("left", lambda *sides, **more: overlap_join(*sides, on=spans, **more)),
        ("full", lambda *sides, **more: interval_join(*sides, **one, **more)),
    ]:
        for by in (None, "k", ["k", "n"]):
            found = call(full, empty, by=by, how=how)
            assert found["ts"].to_pylist() == full["ts"].to_pylist()
            assert found["ts"].type == full["ts"].type
            found = call(empty, full, by=by, how=how)
            assert found.num_rows == (3 if how == "full" else 0)
            assert found["ts"].type == full["ts"].type
    aggs = {"rows": agg.count(), "sum": agg.sum("k")}
    assert interval_join(full, empty, **one, aggs=aggs)["rows"].to_pylist() == [0, 0, 0]


def test_two_empty_sides_without_types(empty):
    for lower in (0, "1s"):
        found = interval_join(empty, empty, on="ts", by="k", lower=lower, upper=None)
        assert found.num_rows == 0
    assert asof_join(empty, empty, on="ts", by="k", tolerance="1s").num_rows == 0


@pytest.mark.parametrize(("size", "time"), [(5, pa.int64()), ("1h", pa.timestamp("us"))])
def test_aggregates_of_an_empty_input_without_types(empty, size, time):
    aggs = {"rows": agg.count(), "sum": agg.sum("n"), "last": agg.last("n"), "mean": agg.mean("n")}
    found = aggregate(empty, on="ts", size=size, by="k", aggs=aggs)
    assert found.num_rows == 0
    assert found.schema.field("window_start").type == time
    assert found.schema.field("rows").type == pa.int64()
    assert found.schema.field("sum").type == pa.float64()
    full = TABLE if size == 5 else DAYS
    for streams in ([full, empty], [empty, full]):
        found = aggregate(streams, on="ts", size=size, by="k", aggs={"rows": agg.count()})
        assert found.equals(aggregate(full, on="ts", size=size, by="k", aggs={"rows": agg.count()}))


@pytest.mark.parametrize("full", [TABLE, DAYS], ids=["integers", "times"])
def test_merges_with_an_empty_input_without_types(empty, full):
    for streams in ([full, empty], [empty, full]):
        assert merge(streams) == full
    assert merge([empty]).num_rows == 0
    with pytest.raises(SchemaError, match="column `ts` is null"):
        merge([full.set_column(0, "ts", pa.nulls(3))])


@pytest.mark.parametrize("full", [TABLE, DAYS], ids=["integers", "times"])
def test_an_empty_side_without_types_is_explained_as_it_is_joined(empty, full):
    one = {"on": "ts", "by": "k", "lower": None, "upper": None}
    for sides in ([full, empty], [empty, full], [empty, empty]):
        assert explain(interval_join, *sides, **one).startswith("interval_join")
        assert explain(asof_join, *sides, on="ts", by="k").startswith("asof_join")
    size = 5 if full is TABLE else "1h"
    aggs = {"sum": agg.sum("n")}
    assert explain(aggregate, [full, empty], on="ts", size=size, aggs=aggs).startswith("aggregate")


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_a_memory_limit_changes_nothing_about_inputs_without_types(empty, how):
    for sides in [(empty, DAYS), (DAYS, empty), (empty, empty)]:
        found = interval_join(*sides, on="ts", by="k", lower="0s", upper="1s", how=how)
        limited = interval_join(
            *sides, on="ts", by="k", lower="0s", upper="1s", how=how, memory_limit="300MB"
        )
        assert limited.equals(found)
    options = {"on": "ts", "by": "k", "size": "1h", "aggs": {"n": agg.count()}}
    found = aggregate(empty, **options, memory_limit="300MB")
    assert found.equals(aggregate(empty, **options))


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_a_file_of_an_empty_batch_without_types_is_read_within_a_limit(tmp_path, ending):
    batch = pa.record_batch({"ts": pa.nulls(0), "k": pa.nulls(0)})
    path = tmp_path / f"empty.{ending}"
    opener = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
    with opener(path, batch.schema) as writer:
        writer.write_batch(batch)
    query = {"on": "ts", "by": "k", "lower": "0s", "upper": "1s", "how": "full"}
    limited = interval_join(path, DAYS, **query, memory_limit="300MB")
    assert limited.num_rows == DAYS.num_rows
    assert limited.equals(interval_join(path, DAYS, **query))


def test_a_type_that_arrow_does_not_define_is_named_with_what_to_pass():
    frame = pl.DataFrame({"ts": [1], "big": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(SchemaError, match=r"column `big` has the type .*; cast .*drop\(\"big\"\)"):
        interval_join(frame, frame, on="ts", lower=0, upper=0)
    rest = frame.drop("big")
    assert interval_join(rest, rest, on="ts", lower=0, upper=0).num_rows == 1
