"""Metadata in results: categories, extension types and pandas indexes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import agg

# Polars enums: a field lists the categories, and polars reads all other values as null.


def enum(categories: str, *values: str) -> Any:
    pl = pytest.importorskip("polars")
    key = pl.Series(values, dtype=pl.Enum(list(categories)))
    return pl.DataFrame({"ts": pl.Series(range(len(values)), dtype=pl.Int64), "k": key})


def read(table: pa.Table) -> Any:
    return pytest.importorskip("polars").DataFrame(table.to_reader())


JOINS: dict[str, Callable[..., pa.Table]] = {
    "interval_join": lambda *sides, **more: tg.interval_join(
        *sides, on="ts", lower=0, upper=1, **more
    ),
    "interval_join_batches": lambda *sides, **more: pa.Table.from_batches(
        list(tg.interval_join_batches(*sides, on="ts", lower=0, upper=1, **more))
    ),
    "overlap_join": lambda *sides, **more: tg.overlap_join(*sides, on=("ts", "ts"), **more),
    "window_join": lambda *sides, **more: tg.window_join(*sides, on="ts", window=1, **more),
    "band_join": lambda *sides, **more: tg.band_join(*sides, on="ts", within=1, **more),
}


@pytest.mark.parametrize("how", ["right", "full"])
@pytest.mark.parametrize("name", JOINS)
def test_a_key_of_two_enums_has_the_values_of_both(name, how):
    found = read(JOINS[name](enum("ab", "a", "b"), enum("bc", "b", "c"), by="k", how=how))
    assert set(found["k"]) == ({"a", "b", "c"} if how == "full" else {"b", "c"})


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti", "full"])
def test_a_key_of_one_enum_stays_one(how):
    left = enum("ab", "a", "b")
    found = read(JOINS["interval_join"](left, enum("ab", "b"), by="k", how=how))
    assert found.schema["k"] == left.schema["k"]


@pytest.mark.parametrize(
    "call",
    [
        lambda streams: tg.merge(streams, on="ts"),
        lambda streams: tg.merge(streams, on="ts", memory_limit="1GB"),
        lambda streams: tg.merge([streams[0].reverse(), streams[1]], on="ts", lateness=9),
        lambda streams: pa.Table.from_batches(list(tg.merge_batches(streams, on="ts"))),
        lambda streams: tg.aggregate(
            streams, on="ts", by="k", size=9, aggs={"n": agg.count(), "first": agg.first("k")}
        ),
    ],
)
def test_streams_of_two_enums_have_the_values_of_both(call):
    found = read(call([enum("ab", "a", "b"), enum("bc", "b", "c")]))
    assert set(found["k"]) == {"a", "b", "c"}
    same = call([enum("abc", "a", "b"), enum("abc", "b", "c")])
    assert read(same).schema["k"] == enum("abc").schema["k"]


def merged(schema: Any, *pushed: Any) -> pa.Table:
    merge = tg.Merge(schema)
    for rows in pushed:
        merge.sources[0].push(rows)
    merge.sources[0].close()
    return pa.Table.from_batches(list(merge), merge.schema)


def test_an_operator_takes_the_categories_that_it_was_made_with():
    frame = enum("ab", "a", "b")
    schema = pa.table(frame).schema
    strings = pa.table({"ts": [2], "k": ["a"]})
    found = read(merged(schema, frame, strings, [{"ts": 3, "k": "b"}], enum("ba", *"aaaaa")[4:]))
    assert found["k"].to_list() == ["a", "b", "a", "b", "a"]
    assert found.schema == frame.schema


@pytest.mark.parametrize(
    "rows",
    [
        lambda: enum("bc", "b", "c"),
        lambda: pa.table({"ts": [0, 1], "k": ["a", "c"]}),
        lambda: [{"ts": 0, "k": None}, {"ts": 1, "k": "c"}],
    ],
)
def test_an_operator_refuses_other_categories(rows):
    with pytest.raises(tg.TidegateError, match="column `k`, row 1: `c` is not a category of the"):
        merged(pa.table(enum("ab")).schema, rows())


# Extension types: values with the same storage type but different meanings


def periods(freq: str) -> pd.DataFrame:
    return pd.DataFrame({"ts": [1, 2], "p": pd.period_range("2026-01", periods=2, freq=freq)})


@pytest.mark.parametrize(
    "call",
    [
        lambda one, other: tg.merge([one, other], on="ts"),
        lambda one, other: pa.Table.from_batches(list(tg.merge_batches([one, other], on="ts"))),
        lambda one, other: tg.aggregate(
            [one, other], on="ts", by="p", size=1, aggs={"n": agg.count()}
        ),
        lambda one, other: tg.asof_join(one, other, on="ts", by="p"),
        merged,
    ],
)
def test_periods_of_two_lengths_are_no_one_column(call):
    with pytest.raises(tg.SchemaError, match=r'`p` is pandas.period {"freq": "M"} in .*"D"}'):
        call(periods("M"), periods("D"))
    assert call(periods("M"), periods("M")).num_rows >= 2


def test_a_plain_column_beside_an_extension_type_leaves_plain_values():
    plain = pa.table({"ts": [5], "p": pa.array([3], pa.int64())})
    found = tg.merge([periods("M"), plain], on="ts")
    assert found["p"].to_pylist() == [672, 673, 3]
    assert found.to_pandas()["p"].tolist() == [672, 673, 3]


def test_integers_beyond_64_bits_beside_an_extension_type_are_plain_values():
    plain = pa.table({"ts": [5], "p": pa.array([2**63], pa.uint64())})
    found = tg.aggregate([periods("M"), plain], on="ts", by="p", size=9, aggs={"n": agg.count()})
    assert found.schema.field("p").metadata is None
    assert found["p"].to_pylist() == [672, 673, 2**63]


# pandas indexes

FRAME = pd.DataFrame(
    {"ts": [1, 2, 3, 4], "n": pd.array([1, None, 2**60 + 1, 4], "Int64"), "s": list("wxyz")}
)
UNNAMED = {
    "a slice": FRAME.iloc[2:],
    "a filter": FRAME[FRAME.ts % 2 == 1],
    "gaps": FRAME.iloc[[0, 1, 3]],
    "labels": FRAME.set_axis(list("wxyz")),
    "twice the same label": FRAME.set_axis([7, 7, 8, 8]),
    "levels": FRAME.set_index([pd.Index(list("abcd")), pd.Index([4, 3, 2, 1])]),
}


@pytest.mark.parametrize("frame", UNNAMED.values(), ids=UNNAMED)
@pytest.mark.parametrize(
    "call",
    [
        lambda frame: tg.interval_join(frame, FRAME, on="ts", lower=0, upper=1),
        lambda frame: tg.interval_join(FRAME, frame, on="ts", lower=0, upper=1),
        lambda frame: tg.asof_join(frame, frame, on="ts"),
        lambda frame: tg.merge([frame, FRAME], on="ts"),
        lambda frame: tg.merge([FRAME, frame], on="ts"),
        lambda frame: merged(frame, frame),
        lambda frame: merged(FRAME, frame),
        lambda frame: merged(frame, FRAME),
        lambda frame: merged(frame, [{"ts": 5, "n": 5, "s": "v"}]),
        lambda frame: tg.merge([pa.Table.from_pandas(frame), FRAME], on="ts"),
        lambda frame: tg.interval_join(
            frame, frame, on="ts", lower=0, upper=1, aggs={"most": agg.max("ts")}
        ),
    ],
)
def test_an_unnamed_index_is_left_out(call, frame):
    found = call(frame)
    assert not [name for name in found.schema.names if name.startswith("__index_level_")]
    assert found.to_pandas().index.equals(pd.RangeIndex(found.num_rows))


def test_an_unnamed_index_in_a_parquet_file_is_left_out(tmp_path):
    for name in ("labels", "levels"):
        UNNAMED[name].to_parquet(tmp_path / name)
        path = (tmp_path / name).rename(tmp_path / f"{name}.parquet")
        for given in (path, [path]):
            found = tg.asof_join(given, given, on="ts")
            assert found.schema.names == ["ts", "n", "s", "ts_right", "n_right", "s_right"]


NAMED = {
    "listed": FRAME.set_index(pd.Index([5, 7, 8, 9], name="at")),
    "evenly spaced": FRAME.set_axis(pd.RangeIndex(3, 11, 2, name="at")),
    "times": FRAME.set_axis(pd.date_range("2026-01-01", periods=4, name="at")),
    "one of two levels": FRAME.set_index(
        [pd.Index([3, 4, 5, 6], name="at"), pd.Index(list("abcd"))]
    ),
}


@pytest.mark.parametrize("frame", NAMED.values(), ids=NAMED)
def test_a_named_index_is_a_column_and_stays_the_index(frame):
    columns = [*FRAME, "at"]
    wanted = frame.index.get_level_values("at")
    for found in (tg.merge([frame], on="at"), merged_on(frame, "at")):
        assert found.schema.names == columns
        assert found.to_pandas().index.equals(wanted)
    last = tg.asof_join(frame, frame, on="at")
    assert last.schema.names == [*columns, *(f"{name}_right" for name in columns)]
    assert last.to_pandas().index.equals(wanted)
    without = tg.asof_join(frame, frame, on="at", columns=["n", "at_right"]).to_pandas()
    assert without.index.equals(pd.RangeIndex(4))
    assert without["at_right"].tolist() == wanted.tolist()
    # The input frame is unchanged.
    assert list(frame) == list(FRAME)


def merged_on(frame: pd.DataFrame, on: str) -> pa.Table:
    merge = tg.Merge(frame, on=on)
    merge.sources[0].push(frame)
    merge.sources[0].close()
    return pa.Table.from_batches(list(merge), merge.schema)


def test_labels_are_no_rows_of_the_left_frame():
    left = pd.DataFrame({"ts": [0, 10, 20, 30]}).iloc[2:]
    found = tg.interval_join(left, pd.DataFrame({"ts": [21, 22]}), on="ts", lower=0, upper=5)
    assert found.num_rows == len(left)
    assert found.to_pandas().index.equals(pd.RangeIndex(2))


# Labels and types of pandas columns


@pytest.mark.parametrize(
    "labels", [[0, 1], [pd.Timestamp("2026-01-01"), pd.Timestamp("2027-01-01")]]
)
def test_labels_that_are_no_strings_become_strings(labels):
    frame = pd.DataFrame(np.arange(4).reshape(2, 2), columns=labels)
    names = [str(label) for label in labels]
    found = tg.asof_join(frame, frame, on=names[0]).to_pandas()
    assert list(found) == names + [f"{name}_right" for name in names]
    assert list(tg.merge([frame], on=names[0]).to_pandas()) == names


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_nullable_integers_stay_exact_on_both_sides(how):
    found = tg.interval_join(FRAME, FRAME, on="ts", lower=1, upper=2, how=how).to_pandas()
    for name, at in (("n", "ts"), ("n_right", "ts_right")):
        assert found[name].dtype == "Int64"
        rows = found.dropna(subset=[name])
        wanted = FRAME.set_index("ts")["n"].loc[rows[at].astype(int)]
        assert rows[name].tolist() == wanted.tolist()
    renamed = FRAME.rename(columns={"n": "m"})
    for sides in ((pa.table({"ts": [1, 2]}), renamed), (renamed, pa.table({"ts": [1, 2]}))):
        assert tg.asof_join(*sides, on="ts").to_pandas()["m"].dtype == "Int64"


FUNCTIONS = {
    "max": (agg.max("n"), "Int64", [2**60 + 1, pd.NA]),
    "sum": (agg.sum("n"), "Int64", [2**60 + 2, pd.NA]),
    "sum of small integers": (agg.sum("small"), "Int64", [200, pd.NA]),
    "min of small integers": (agg.min("small"), "Int8", [100, pd.NA]),
    "mean": (agg.mean("small"), "Float64", [100.0, pd.NA]),
    "any": (agg.any("flag"), "boolean", [True, pd.NA]),
    "first": (agg.first("s"), "string", ["a", pd.NA]),
    "period": (agg.last("p"), "period[M]", [pd.Period("2026-02"), pd.NaT]),
    "count": (agg.count("n"), "int64", [2, 0]),
    "distinct": (agg.count_distinct("n"), "int64", [2, 0]),
}
OF_FUNCTIONS = pd.DataFrame(
    {
        "ts": [0, 1, 5],
        "n": pd.array([2**60 + 1, 1, None], "Int64"),
        "small": pd.array([100, 100, None], "Int8"),
        "flag": pd.array([True, False, None], "boolean"),
        "s": pd.array(["a", "b", None], "string"),
        "p": pd.PeriodIndex(["2026-01", "2026-02", None], freq="M"),
    }
)


def partners(left: Any) -> Callable[[Any], pa.Table]:
    return lambda aggs: tg.interval_join(
        left, OF_FUNCTIONS, on="ts", lower=0, upper=1, aggs=aggs, columns=["ts"]
    )


def partners_of_streams(aggs: Any) -> pa.Table:
    join = tg.IntervalJoin(
        pa.schema({"ts": pa.int64()}), OF_FUNCTIONS, on="ts", lower=0, upper=1, aggs=aggs
    )
    join.left_sources[0].push(pa.table({"ts": [0, 5]}))
    join.right_sources[0].push(OF_FUNCTIONS)
    for source in (*join.left_sources, *join.right_sources):
        source.close()
    return pa.Table.from_batches(list(join), join.schema)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "call",
    [
        lambda aggs: tg.aggregate(OF_FUNCTIONS, on="ts", size=5, aggs=aggs),
        partners(pa.table({"ts": [0, 5]})),
        partners(pd.DataFrame({"ts": [0, 5]})),
        partners_of_streams,
    ],
    ids=["aggregate", "partners", "partners of a frame", "partners of streams"],
)
def test_functions_of_nullable_columns_stay_exact(call, name):
    function, dtype, values = FUNCTIONS[name]
    found = call({"f": function}).to_pandas()["f"]
    assert (str(found.dtype), found.tolist()) == (dtype, values)


@pytest.mark.parametrize("call", [tg.merge, tg.merge_batches])
def test_merged_columns_are_nullable_where_one_is(call):
    frames = [FRAME.assign(n=[1, 2, 3, 4]), FRAME]
    for streams in (frames, frames[::-1]):
        found = call(streams, on="ts")
        table = found if isinstance(found, pa.Table) else pa.Table.from_batches(list(found))
        assert table.to_pandas()["n"].dtype == "Int64"


def test_groups_of_integers_of_two_widths_have_the_wider_type():
    small = FRAME.assign(n=pd.array([1, None, 3, 4], "Int8"))
    unsigned = FRAME.assign(n=pd.array([2**63, None, 3, 4], "UInt64"))
    aggs = {"rows": agg.count(), "most": agg.max("n")}
    found = tg.aggregate([small, FRAME], on="ts", by="n", size=9, aggs=aggs).to_pandas()
    assert [str(found[name].dtype) for name in ("n", "most")] == ["Int64", "Int64"]
    assert found["n"].tolist() == [1, 3, 4, 2**60 + 1, pd.NA]
    of_arrow = [small.astype({"n": "int8[pyarrow]"}), FRAME.astype({"n": "int64[pyarrow]"})]
    aggs_of_arrow = {"most": agg.max("n"), "mean": agg.mean("n")}
    found = tg.aggregate(of_arrow, on="ts", by="n", size=9, aggs=aggs_of_arrow).to_pandas()
    types = ["int64[pyarrow]", "int64[pyarrow]", "double[pyarrow]"]
    assert [str(found[name].dtype) for name in ("n", "most", "mean")] == types
    assert found["n"].tolist() == [1, 3, 4, 2**60 + 1, pd.NA]
    found = tg.aggregate([unsigned, FRAME], on="ts", by="n", size=9, aggs=aggs).to_pandas()
    assert found["n"].tolist() == [1, 3, 4, 2**60 + 1, 2**63, None]


def test_a_function_has_its_own_type_under_the_name_of_a_column():
    texts = FRAME.assign(n=pd.array(list("wxyz"), "string"))
    found = tg.interval_join(
        texts, texts, on="ts", lower=0, upper=1, columns=["ts"], aggs={"n": agg.count()}
    )
    assert found.to_pandas()["n"].tolist() == [2, 2, 2, 1]


def test_other_metadata_of_the_left_schema_stays():
    left = pa.table({"ts": [1]}).replace_schema_metadata({"source": "a"})
    found = tg.asof_join(left, FRAME, on="ts")
    assert found.schema.metadata[b"source"] == b"a"


# Categories


@pytest.mark.parametrize("other", [["b", "a", "unused"], ["c", "a"], ["a"]])
def test_merged_categories_are_there_once(other):
    first = pd.Categorical(["a", "b", None], categories=["b", "a", "unused"], ordered=True)
    second = pd.Categorical(["a", None, other[0]], categories=other, ordered=True)
    frames = [pd.DataFrame({"ts": [1, 2, 3], "x": column}) for column in (first, second)]
    for found in (tg.merge(frames), pa.Table.from_batches(list(tg.merge_batches(frames)))):
        column = found.to_pandas()["x"]
        values = column.astype(object).where(column.notna(), None).tolist()
        assert values == ["a", "a", "b", None, None, other[0]]
        assert column.cat.categories[:3].tolist() == ["b", "a", "unused"]


def test_nullable_keys_of_groups_stay_exact():
    found = tg.aggregate(FRAME, on="ts", by=["n", "s"], size=9, aggs={"rows": agg.count()})
    assert found.to_pandas()["n"].tolist() == [1, 4, 2**60 + 1, pd.NA]
    assert found.to_pandas().index.equals(pd.RangeIndex(4))


def test_arrow_types_with_fields_come_back():
    lists = pd.Series([[1], None], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    frame = pd.DataFrame({"ts": [1, 2], "x": lists})
    found = tg.asof_join(frame, frame, on="ts").to_pandas()
    assert [found[name][0].tolist() for name in ("x", "x_right")] == [[1], [1]]


# Files written by pandas: the same frames as if pandas had read them


def frames() -> dict[str, pd.DataFrame]:
    # Files do not store an index of consecutive numbers.
    values = {"ts": [1, 2, 4], "k": [1, 2, 3], "e": pd.Categorical(["a", "b", "a"])}
    values |= {"x": pd.array([2**60 + 1, None, 3], "Int64"), "b": pd.array([True, None, False])}
    plain = pd.DataFrame(values)
    return {"plain": plain, "indexed": plain.set_index("ts"), "labelled": plain[plain["ts"] > 1]}


OF_FILES: dict[str, Callable[..., pa.Table]] = {
    "asof_join": lambda one, other: tg.asof_join(one, other, on="ts"),
    "full": lambda one, other: tg.interval_join(
        one, other, on="ts", by="k", lower=0, upper=1, how="full"
    ),
    "batches": lambda one, other: pa.Table.from_batches(
        list(tg.interval_join_batches(one, other, on="ts", lower=0, upper=1))
    ),
    "limited": lambda one, other: tg.interval_join(
        one, other, on="ts", lower=0, upper=1, memory_limit="300MB"
    ),
    "aggregate": lambda one, _: tg.aggregate(
        one, on="ts", size=2, aggs={"x": agg.max("x"), "b": agg.first("b")}
    ),
    "rolling": lambda one, _: tg.rolling(one, on="ts", size=2, aggs={"s": agg.sum("x")}),
    "merge": lambda one, _: tg.merge([one], on="ts"),
}


@pytest.mark.parametrize("name", OF_FILES)
@pytest.mark.parametrize("left", ["plain", "indexed", "labelled"])
def test_files_written_by_pandas_are_frames(tmp_path, name, left):
    sides = {side: frames()[side] for side in (left, "labelled")}
    paths = [tmp_path / f"{side}.parquet" for side in sides]
    for frame, path in zip(sides.values(), paths, strict=True):
        frame.to_parquet(path)
    one, other = frames()[left], frames()["labelled"]
    wanted = OF_FILES[name](one, other).to_pandas()
    found = OF_FILES[name](paths[0], paths[-1]).to_pandas()
    pd.testing.assert_frame_equal(found, wanted)
    assert "Int64" in {str(kind) for kind in found.dtypes}
