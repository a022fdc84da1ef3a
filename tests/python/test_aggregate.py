"""`aggregate` by example: the effect of each argument, and the messages of refusals."""

import datetime as dt
import decimal
import math
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate import MemoryLimitError, SchemaError, TidegateError, agg, aggregate, row

TRADES = pa.table(
    {
        "ts": [1, 2, 7, 11, 11],
        "sym": ["A", "B", "A", "A", None],
        "price": [3.0, 5.0, 4.0, None, 6.0],
        "size": [10, 30, 20, 40, 50],
    }
)
COUNT = {"n": agg.count()}


def rows(*args, **kwargs):
    """Return the result's rows as tuples, without the ends of windows."""
    found = aggregate(*args, **kwargs).drop_columns("window_end")
    return [tuple(one.values()) for one in found.to_pylist()]


# Windows


def test_booleans():
    flags = pa.table({"ts": [1, 2, 11, 21], "b": [True, False, True, None]})
    aggs = {"any": agg.any("b"), "all": agg.all("b"), "n": agg.count()}
    assert rows(flags, on="ts", size=10, aggs=aggs) == [
        (0, True, False, 2),
        (10, True, True, 1),
        (20, None, None, 1),
    ]


def test_tumbling_windows_with_many_functions():
    names = ["count", "first", "last", "max", "mean", "min", "std", "sum", "var", "product"]
    functions = {name: getattr(agg, name)("size") for name in names}
    functions["by_size"] = agg.weighted_mean("price", "size")
    found = aggregate(TRADES, on="ts", size=10, aggs=functions)
    assert found.to_pylist() == [
        {
            "window_start": 0, "window_end": 10, "count": 3, "first": 10, "last": 20, "max": 30,
            "mean": 20.0, "min": 10, "std": 10.0, "sum": 60, "var": 100.0,
            "product": 6000.0, "by_size": (3.0 * 10 + 5.0 * 30 + 4.0 * 20) / 60,
        },
        {
            "window_start": 10, "window_end": 20, "count": 2, "first": 40, "last": 50, "max": 50,
            "mean": 45.0, "min": 40, "std": math.sqrt(50), "sum": 90, "var": 50.0,
            "product": 2000.0, "by_size": 6.0,
        },
    ]  # fmt: skip


def test_sliding_windows_overlap_and_empty_ones_are_left_out():
    assert rows(TRADES, on="ts", size=4, advance=2, aggs=COUNT) == [
        (-2, 1), (0, 2), (2, 1), (4, 1), (6, 1), (8, 2), (10, 2),
    ]  # fmt: skip


def test_gaps_and_an_offset():
    assert rows(TRADES, on="ts", size=2, advance=5, offset=2, aggs=COUNT) == [(2, 1), (7, 1)]
    assert rows(TRADES, on="ts", size=2, advance=5, offset=-3, aggs=COUNT) == [(2, 1), (7, 1)]


def test_windows_of_times_are_aligned_to_the_epoch():
    times = pa.array(
        [dt.datetime(2024, 2, 29, 23, 59, 58, tzinfo=dt.UTC)], pa.timestamp("ms", "UTC")
    )
    found = aggregate(pa.table({"ts": times}), on="ts", size="1d", offset="6h", aggs={})
    day = dt.datetime(2024, 2, 29, 6, tzinfo=dt.UTC)
    assert found.to_pylist() == [{"window_start": day, "window_end": day + dt.timedelta(days=1)}]


def test_times_of_several_units_meet_in_the_finest():
    coarse = pa.table({"ts": pa.array([1], pa.timestamp("s"))})
    fine = pa.table({"ts": pa.array([1_999_999], pa.timestamp("us"))})
    found = aggregate([coarse, fine], on="ts", size="1s", aggs=COUNT)
    assert found.schema.field("window_start").type == pa.timestamp("us")
    assert found["n"].to_pylist() == [2]


def test_the_ends_of_time():
    ends = pa.table({"ts": pa.array([-(2**63), 2**63 - 2], pa.int64())})
    assert rows(ends, on="ts", size=1, aggs=COUNT) == [(-(2**63), 1), (2**63 - 2, 1)]
    with pytest.raises(
        TidegateError, match="a window that begins or ends outside the 64-bit range"
    ):
        aggregate(ends, on="ts", size=3, aggs=COUNT)


# Keys


def test_null_is_a_group_and_comes_last():
    assert rows(TRADES, on="ts", size=20, by="sym", aggs=COUNT) == [
        (0, "A", 3), (0, "B", 1), (0, None, 1),
    ]  # fmt: skip


def test_several_keys_with_nulls_apart():
    table = pa.table({"ts": [1] * 5, "a": [1, None, 1, None, 0], "b": ["x", "x", None, None, None]})
    assert rows(table, on="ts", size=5, by=["a", "b"], aggs=COUNT) == [
        (0, 0, None, 1), (0, 1, "x", 1), (0, 1, None, 1), (0, None, "x", 1), (0, None, None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        (pa.int64(), [-(2**63), -1, 5, 2**63 - 1]),
        (pa.uint64(), [0, 5, 2**63, 2**64 - 1]),
        (pa.float32(), [-math.inf, -1.5, 0.0, math.inf]),
        (pa.bool_(), [False, True]),
        (pa.string(), ["", "B", "a", "é"]),
        (pa.large_string(), ["", "B", "a", "é"]),
        (pa.string_view(), ["", "B", "a", "é"]),
        (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
        (pa.dictionary(pa.int8(), pa.string()), ["", "B", "a", "é"]),
        (pa.decimal128(20, 2), [decimal.Decimal("-1.50"), decimal.Decimal("0.25")]),
        (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
        (pa.timestamp("us", "UTC"), [dt.datetime(1960, 1, 1, tzinfo=dt.UTC)]),
    ],
)
def test_keys_of_every_type_ascend(type_, ascending):
    keys = [None, *reversed(ascending)]
    table = pa.table({"ts": [0] * len(keys), "k": pa.array(keys, type_)})
    found = aggregate(table, on="ts", size=1, by="k", aggs=COUNT)
    assert found.schema.field("k").type == type_
    assert found["k"].to_pylist() == [*ascending, None]


def test_nan_is_one_key_and_so_is_zero():
    table = pa.table({"ts": [0] * 4, "k": [math.nan, -0.0, -math.nan, 0.0]})
    assert repr(rows(table, on="ts", size=1, by="k", aggs=COUNT)) == "[(0, 0.0, 2), (0, nan, 2)]"


def test_many_keys_with_few_rows_each():
    count = 300_000
    keys = np.random.default_rng(1).permutation(count) * 7919
    table = pa.table({"ts": np.arange(count) // 3, "k": keys})
    found = aggregate(table, on="ts", size=50_000, advance=25_000, by="k", aggs=COUNT)
    assert found.num_rows == 2 * count
    starts, keys = found["window_start"].to_numpy(), found["k"].to_numpy()
    assert (np.diff(starts) >= 0).all()
    assert (np.diff(keys)[np.diff(starts) == 0] > 0).all()


# Rows and streams


def test_where_selects_rows_and_functions_select_theirs():
    found = rows(
        TRADES,
        on="ts",
        size=20,
        where="size < 50",
        aggs={
            "n": agg.count(),
            "large": agg.count(where=row.size > 15),
            "of_b": agg.sum("size", where="sym = 'B'"),
            "none": agg.min("price", where=row.price > 100),
        },
    )
    assert found == [(0, 4, 3, 30, None)]


def test_nulls_are_left_out_but_for_first_and_last():
    found = rows(
        TRADES,
        on="ts",
        size=10,
        by="sym",
        aggs={
            "n": agg.count("price"),
            "sum": agg.sum("price"),
            "last": agg.last("price"),
            "last_known": agg.last("price", where="price IS NOT NULL"),
        },
    )
    assert found[2] == (10, "A", 0, None, None, None)
    assert found[3] == (10, None, 1, 6.0, 6.0, 6.0)


def test_ties_go_by_stream_then_position():
    streams = [pa.table({"ts": [5, 5], "v": [place, place + 1]}) for place in (0, 10, 20)]
    functions = {"first": agg.first("v"), "last": agg.last("v")}
    assert rows(streams, on="ts", size=10, aggs=functions) == [(0, 0, 21)]
    assert rows(streams[::-1], on="ts", size=10, aggs=functions) == [(0, 20, 1)]


def test_a_stream_that_is_not_sorted_is_as_if_it_were():
    order = np.random.default_rng(3).permutation(100_000)
    ts = np.arange(100_000) // 2
    table = pa.table({"ts": ts, "k": ts % 7, "v": np.sin(ts), "s": [f"{at}" for at in ts]})
    arguments = {
        "on": "ts", "size": 1000, "advance": 300, "by": "k",
        "aggs": {"v": agg.sum("v"), "f": agg.first("s"), "m": agg.max("s")},
    }  # fmt: skip
    found = aggregate(table.take(order), **arguments)
    # Rows with equal times are in another order, but their values are equal.
    assert found.equals(aggregate(table, **arguments))


def test_types_of_one_column_meet():
    narrow = pa.table({"ts": [1], "k": pa.array(["a"], pa.string()), "v": pa.array([1], pa.int8())})
    wide = pa.table({"ts": [1], "k": pa.array(["a"], pa.large_string()), "v": [2**40]})
    assert rows([narrow, wide], on="ts", size=5, by="k", aggs={"v": agg.sum("v")}) == [
        (0, "a", 2**40 + 1)
    ]


def test_empty_streams_and_no_rows_at_all():
    empty = TRADES.slice(0, 0)
    assert rows([empty, TRADES, empty], on="ts", size=100, aggs=COUNT) == [(0, 5)]
    found = aggregate([empty, empty], on="ts", size=1, by="sym", aggs={"p": agg.mean("price")})
    assert found.num_rows == 0
    assert found.schema.names == ["window_start", "window_end", "sym", "p"]
    assert found.schema.field("p").type == pa.float64()


def test_any_arrow_data_may_be_a_stream():
    frame = pd.DataFrame({"ts": [1, 2], "v": [1.5, 2.5]})
    batch = pa.record_batch({"ts": [3], "v": [4.0]})
    reader = pa.table({"ts": [9], "v": [8.0]}).to_reader()
    assert rows([frame, batch, reader], on="ts", size=10, aggs={"v": agg.sum("v")}) == [(0, 16.0)]


# Types of results


def test_types_of_results():
    values = pa.table(
        {
            "ts": [0],
            "small": pa.array([1], pa.int8()),
            "unsigned": pa.array([1], pa.uint32()),
            "float": pa.array([1], pa.float32()),
            "money": pa.array([decimal.Decimal("1.25")], pa.decimal128(9, 2)),
            "list": pa.array([[1]], pa.list_(pa.int64())),
            "time": pa.array([dt.time(1)], pa.time64("us")),
        }
    )
    wanted = {
        ("sum", "small"): pa.int64(),
        ("sum", "unsigned"): pa.uint64(),
        ("sum", "float"): pa.float64(),
        ("sum", "money"): pa.decimal128(38, 2),
        ("mean", "money"): pa.float64(),
        ("var", "small"): pa.float64(),
        ("count", "list"): pa.int64(),
        ("max", "float"): pa.float32(),
        ("min", "unsigned"): pa.uint32(),
        ("min", "time"): pa.time64("us"),
        ("max", "money"): pa.decimal128(9, 2),
        ("last", "list"): pa.list_(pa.int64()),
    }
    aggs = {f"{name} {of}": agg.Aggregate(name, of) for name, of in wanted}
    found = aggregate(values, on="ts", size=1, aggs=aggs)
    found.validate(full=True)
    assert found.schema.types[2:] == list(wanted.values())
    assert found["sum money"].to_pylist() == [decimal.Decimal("1.25")]
    assert found["mean money"].to_pylist() == [1.25]
    assert found["max money"].to_pylist() == [decimal.Decimal("1.25")]


def test_integer_sums_are_exact_or_an_error():
    values = pa.table({"ts": [0, 0, 0, 9], "v": [2**63 - 1, 1, -5, 2**63 - 1]})
    assert rows(values, on="ts", size=5, aggs={"v": agg.sum("v"), "m": agg.mean("v")}) == [
        (0, 2**63 - 5, (2**63 - 5) / 3), (5, 2**63 - 1, float(2**63 - 1)),
    ]  # fmt: skip
    text = (
        r"aggs: `v`: in the window that starts at 0 \(integer\) the sum 18446744073709551610 does"
    )
    with pytest.raises(TidegateError, match=text):
        aggregate(values, on="ts", size=10, aggs={"v": agg.sum("v")})
    unsigned = values.set_column(1, "v", pa.array([2**64 - 1, 0, 0, 1], pa.uint64()))
    assert rows(unsigned, on="ts", size=5, aggs={"v": agg.sum("v")})[0] == (0, 2**64 - 1)
    with pytest.raises(TidegateError, match="does not fit uint64"):
        aggregate(unsigned, on="ts", size=10, aggs={"v": agg.sum("v")})


def test_nan_in_values():
    values = pa.table({"ts": [0, 0, 1, 1], "v": [1.0, math.nan, math.nan, -math.nan]})
    aggs = {"min": agg.min("v"), "max": agg.max("v"), "sum": agg.sum("v")}
    assert repr(rows(values, on="ts", size=1, aggs=aggs)) == (
        "[(0, 1.0, nan, nan), (1, nan, nan, nan)]"
    )


def test_a_variance_of_large_numbers_keeps_its_digits():
    values = pa.table({"ts": [0, 1, 2, 3], "v": [1e9 + value for value in (4.0, 7.0, 13.0, 16.0)]})
    assert rows(values, on="ts", size=4, advance=2, aggs={"v": agg.var("v")})[1] == (0, 30.0)


# Threads and limits


@pytest.mark.parametrize("by", [None, "k", ["k", "t"]])
def test_threads_and_batches_change_no_bit(by):
    random = np.random.default_rng(5)
    count = 200_000
    streams = [
        pa.table(
            {
                "ts": np.sort(random.integers(0, 10**6, count)),
                "k": random.integers(0, 500, count),
                "t": pa.array(random.integers(0, 5, count)).cast(pa.string()),
                "v": random.random(count) * 10.0 ** random.integers(-9, 9, count),
            }
        )
        for _ in range(3)
    ]
    aggs = {name: agg.Aggregate(name, "v") for name in ("sum", "mean", "var", "first", "last")}
    arguments = {"on": "ts", "size": 1000, "advance": 350, "by": by, "aggs": aggs}
    found = aggregate(streams, threads=1, **arguments)
    assert found.num_rows > 2_000
    for threads in (2, 5):
        assert aggregate(streams, threads=threads, **arguments).equals(found)
    cut = [
        pa.concat_tables([one.slice(0, at), one.slice(at)])
        for one, at in zip(streams, (1, count // 2, count - 1), strict=True)
    ]
    assert aggregate(cut, **arguments).equals(found)


def test_a_result_that_is_too_large():
    with pytest.raises(MemoryLimitError, match="the result has more rows than max_rows = 3"):
        aggregate(TRADES, on="ts", size=10**15, advance=1, aggs=COUNT, max_rows=3)
    assert len(rows(TRADES, on="ts", size=10, aggs=COUNT, max_rows=2)) == 2


def test_functions_are_values():
    function = agg.sum("size", where=row["odd name"] > 1)
    assert function == agg.Aggregate("sum", "size", 'row."odd name" > 1')
    assert pickle.loads(pickle.dumps(function)) == function
    assert hash(function) == hash(pickle.loads(pickle.dumps(function)))


# What is refused


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"size": 0}, TidegateError, r"size must be greater than 0, got 0 \(integer\)"),
        ({"size": -1}, TidegateError, "size must be greater than 0"),
        ({"advance": 0}, TidegateError, "advance must be greater than 0, got 0"),
        ({"size": "1s"}, SchemaError, "size is a duration, but the time columns are integers"),
        ({"size": "1 lightyear"}, TidegateError, "size: `1 lightyear` is not a duration"),
        ({"size": None}, TypeError, "size: expected a duration, got None"),
        ({"size": 1.5}, TypeError, "size: expected a timedelta"),
        ({"on": "time"}, SchemaError, "stream: there is no column `time`, which `on` names"),
        ({"on": "sym"}, SchemaError, "stream: column `sym` is string, expected a time"),
        ({"by": "key"}, SchemaError, "stream: there is no column `key`, which `by` names"),
        ({"by": 3}, TypeError, "by: expected a column name"),
        ({"aggs": {"x": agg.sum("y")}}, SchemaError, "no column `y`, which `aggs` names"),
        ({"aggs": {"x": agg.sum("sym")}}, SchemaError, "`x`: sum of column `sym` of type string"),
        ({"aggs": {"x": agg.mean("sym")}}, SchemaError, "durations or booleans; cast it first"),
        ({"aggs": {"sym": agg.count()}, "by": "sym"}, SchemaError, "would have two columns `sym`"),
        ({"aggs": {"window_end": agg.count()}}, SchemaError, "two columns `window_end`"),
        ({"aggs": {"x": agg.Aggregate("sum")}}, TidegateError, "aggs: `x`: sum needs a column"),
        ({"aggs": {"x": agg.Aggregate("mode", "size")}}, TidegateError, "got `mode`"),
        ({"aggs": {"x": "sum"}}, TypeError, "aggs: `x`: expected a function such as"),
        ({"aggs": {1: agg.count()}}, TypeError, "aggs: expected strings as names, got 1"),
        ({"aggs": [agg.count()]}, TypeError, "aggs: expected a mapping from names to functions"),
        ({"where": "size"}, SchemaError, "where: expected a condition that is true or false"),
        ({"where": "qty > 1"}, SchemaError, "where: the table has no column `qty`; it has `ts`"),
        ({"where": "left.size > 1"}, TidegateError, "have no sides; write row.size"),
        ({"where": 3}, TypeError, "expected an expression of tidegate.row columns"),
        ({"aggs": {"n": agg.count(where="size >")}}, TidegateError, "where `size >`"),
        (
            {"algorithm": "fast"},
            TidegateError,
            "algorithm must be one of auto, slices, mq, mq-lf, tumlsc, tumlmc, wiml, got `fast`",
        ),
        ({"threads": 0}, TidegateError, "threads must be from 1 to 512, got 0"),
    ],
)  # fmt: skip
def test_arguments_that_mean_nothing(arguments, error, text):
    with pytest.raises(error, match=text):
        aggregate(TRADES, **({"on": "ts", "size": 10, "aggs": COUNT} | arguments))


@pytest.mark.parametrize(
    ("streams", "error", "text"),
    [
        ([], TidegateError, "streams: expected at least one stream, got none"),
        (3, TypeError, "streams: expected a table, got int"),
        ({"a": [1]}, SchemaError, "there is no column `ts`, which `on` names; it has `a`"),
        ([TRADES, "x"], TidegateError, r"streams\[1\]: x: cannot be read: No such file"),
        ([TRADES, 3], TypeError, r"streams\[1\]: expected a table, got int"),
        ([TRADES, pa.table({"at": [1]})], SchemaError, r"streams\[1\]: there is no column `ts`"),
        (
            [TRADES, pa.table({"ts": pa.array([1], pa.timestamp("s"))})],
            SchemaError,
            r"column `ts` is int64 in streams\[0\] and timestamp\[s\] in streams\[1\]",
        ),
        (
            [TRADES, pa.table({"ts": [1], "sym": [1]})],
            SchemaError,
            r"column `sym` is string in streams\[0\] and int64 in streams\[1\]; cast one of them",
        ),
        (
            [TRADES, pa.table({"ts": [1, None], "sym": ["A", "B"]})],
            TidegateError,
            r"streams\[1\]: column `ts`, row 1: the time is null",
        ),
    ],
)
def test_streams_that_do_not_fit(streams, error, text):
    with pytest.raises(error, match=text):
        aggregate(streams, on="ts", size=10, by="sym", aggs=COUNT)


def test_a_duration_between_two_steps_is_refused():
    table = pa.table({"ts": pa.array([1], pa.timestamp("s"))})
    with pytest.raises(TidegateError, match=r"size is 0\.5.* s, but times are whole s; cast"):
        aggregate(table, on="ts", size="500ms", aggs=COUNT)


def test_one_reader_twice_is_refused(tmp_path):
    reader = TRADES.to_reader()
    files = TRADES.to_reader()
    path = tmp_path / "trades.parquet"
    pq.write_table(TRADES, path)
    limited = {"memory_limit": "1GB"}
    for call, streams, limits in (
        (aggregate, [reader, reader], {}),
        (aggregate, [files, path, files], {}),
        (aggregate, [reader, reader], limited),
        (tidegate.aggregate_batches, [reader, reader], {}),
        (tidegate.aggregate_batches, (one for one in (files, path, files)), {}),
        (tidegate.aggregate_batches, [files, path, files], limited),
    ):
        with pytest.raises(tidegate.ClosedError, match="same stream, which can be read only once"):
            call(streams, on="ts", size=10, aggs=COUNT, **limits)
    # The stream has not been read.
    assert reader.read_all().num_rows == files.read_all().num_rows == TRADES.num_rows


def test_keys_may_go_up_to_the_largest_number():
    keys = pa.array([2**63 - 1, 2**63 - 2, 2**63 - 1], pa.int64())
    rows = pa.table({"ts": [0, 0, 0], "k": keys})
    found = tidegate.aggregate(rows, on="ts", size=1, by="k", aggs={"n": agg.count()})
    assert found.select(["k", "n"]).to_pydict() == {"k": [2**63 - 2, 2**63 - 1], "n": [1, 2]}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("udf", {}, "udf: there is no function to call; write tidegate.agg.udf"),
        ("udf", {"column": "x"}, "udf: there is no function to call"),
        ("quantile", {}, "quantile: expected a column and a share"),
        ("quantile", {"column": "x"}, "quantile: expected a column and a share"),
    ],
)
def test_a_function_without_its_parameters_is_refused(name, given, said):
    with pytest.raises(ValueError, match=said):
        agg.Aggregate(name, **given)


SPREADS = [
    [1e308, -1e308],
    [-1e308, 1e308, 1e308],
    [1.7e308, 1.7e308, -1.7e308, 5.0],
    [1e200, -1e200],
    [1.7e308, 1.0],
]


@pytest.mark.parametrize("values", SPREADS, ids=str)
@pytest.mark.parametrize("algorithm", [None, "wiml", "mq"])
def test_the_variance_of_far_numbers_is_infinite(values, algorithm):
    streams = [{"ts": [0] * len(values), "v": values, "w": [1.0] * len(values)}] * 2
    aggs = {"var": agg.var("v"), "std": agg.std("v")}
    options = {} if algorithm is None else {"algorithm": algorithm}
    found = aggregate(streams, on="ts", size=1, aggs=aggs, **options).to_pylist()[0]
    assert found["var"] == found["std"] == math.inf
    pairs = {"covar": agg.covar("v", "w"), "corr": agg.corr("v", "v")}
    found = aggregate(streams, on="ts", size=1, aggs=pairs, **options).to_pylist()[0]
    assert found["covar"] == 0
    assert math.isnan(found["corr"])


def test_the_variance_of_an_infinite_number_is_nan():
    for values in ([math.inf, 1.0], [1.0, -math.inf, 2.0], [math.nan, 1e308, -1e308]):
        found = aggregate(
            {"ts": [0] * len(values), "v": values},
            on="ts",
            size=1,
            aggs={"var": agg.var("v"), "std": agg.std("v")},
        ).to_pylist()[0]
        assert math.isnan(found["var"])
        assert math.isnan(found["std"])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()], ids=str)
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)], ids=str)
def test_both_zeros_are_one_value(zeros, kind):
    by = pa.array(np.array([*zeros, *zeros], np.float16)).cast(kind)
    table = pa.table({"ts": [1, 2, 3, 4], "n": [1, 2, 3, 4], "by": by})
    aggs = {
        "least": agg.arg_min("n", "by"),
        "largest": agg.arg_max("n", "by"),
        "min": agg.min("by"),
        "max": agg.max("by"),
        "values": agg.count_distinct("by"),
    }
    expected = {"least": 1, "largest": 1, "min": 0.0, "max": 0.0, "values": 1}
    left = pa.table({"ts": [0]})
    for found in [
        aggregate(table, on="ts", size=10, aggs=aggs),
        aggregate([table.slice(0, 2), table.slice(2)], on="ts", size=10, aggs=aggs),
        tidegate.interval_join(left, table, on="ts", lower=0, upper=9, aggs=aggs),
        aggregate(table, on="ts", size=10, by="by", aggs=aggs),
    ]:
        row = {name: found.to_pylist()[0][name] for name in expected}
        assert row == expected
        assert found.num_rows == 1
        assert [math.copysign(1, row["min"]), math.copysign(1, row["max"])] == [1, 1]
