"""Functions of two columns, or of all values of a window, against NumPy, Polars and DuckDB."""

import pickle
import sys
from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cases import grid
from tidegate import (
    Aggregate,
    IntervalJoin,
    SchemaError,
    TidegateError,
    agg,
    aggregate,
    band_join,
    interval_join,
    interval_join_batches,
    window_join,
)

INTERPOLATIONS = ["linear", "nearest", "lower", "higher", "midpoint"]


def table(seed: int, count: int, keys: int) -> pa.Table:
    """Create random rows in time order; many values are equal, and some are null."""
    random = np.random.default_rng(seed)
    values = random.integers(-50, 50, count) / 4
    missing = random.random(count) < 0.1
    return pa.table(
        {
            "ts": np.sort(random.integers(0, 10 * count, count)),
            "k": random.integers(0, keys, count),
            "v": pa.array(values, mask=missing),
            "w": random.random(count),
        }
    )


def lists(left: pa.Table, right: pa.Table, lower: int, upper: int) -> list[np.ndarray]:
    """Return the right rows of each left row."""
    key, ts = right["k"].to_numpy(), right["ts"].to_numpy()
    by_key = {k: np.flatnonzero(key == k) for k in np.unique(key)}
    found = []
    for k, t in zip(left["k"].to_numpy(), left["ts"].to_numpy(), strict=True):
        rows = by_key.get(k, np.array([], int))
        first, end = np.searchsorted(ts[rows], [t + lower, t + upper + 1])
        found.append(rows[first:end])
    return found


@grid(threads=[1, 2], keys_and_lower=[(1, -40), (1, -30_000), (3, -4_000), (400, -30_000)])
def test_quantiles_of_partners_are_those_of_numpy(keys_and_lower, threads):
    keys, lower = keys_and_lower
    left, right = table(1, 6_000, keys), table(2, 6_000, keys)
    order = np.random.default_rng(3).permutation(left.num_rows)[:600]
    left = left.take(order)
    aggs = {
        f"{name} {share}": agg.quantile("v", share, interpolation=name)
        for name in INTERPOLATIONS
        for share in (0.0, 0.31, 0.5)
    }
    aggs |= {"median": agg.median("v"), "distinct": agg.count_distinct("v")}
    query = {"on": "ts", "by": "k", "lower": lower, "upper": 0, "aggs": aggs, "threads": threads}
    found = interval_join(left, right, **query)
    values = right["v"].to_numpy(zero_copy_only=False)
    partners = [values[rows] for rows in lists(left, right, lower, 0)]
    partners = [rows[~np.isnan(rows)] for rows in partners]
    for name in ("linear", "lower", "higher", "midpoint"):
        for share in (0.0, 0.31, 0.5):
            wanted = [
                np.quantile(rows, share, method=name) if len(rows) else None for rows in partners
            ]
            assert_close(found[f"{name} {share}"], wanted)
    assert found["median"].equals(found["linear 0.5"])
    assert found["distinct"].to_pylist() == [len(np.unique(rows)) for rows in partners]
    # The condition on both sides is always true, but requires evaluating each partner.
    scanned = interval_join(left, right, **query, where="left.w + right.w > -1")
    assert scanned.equals(found)


def assert_close(found: pa.ChunkedArray, wanted: list[float | None]) -> None:
    assert found.is_null().to_pylist() == [value is None for value in wanted]
    known = [value for value in wanted if value is not None]
    np.testing.assert_allclose(found.drop_null().to_numpy(), known, rtol=1e-9, atol=1e-12)


def test_quantiles_of_windows_are_those_of_polars_and_duckdb():
    rows = table(4, 3_000, 5)
    shares = (0.0, 0.2, 0.5, 0.99, 1.0)
    aggs = {
        f"{name} {share}": agg.quantile("v", share, interpolation=name)
        for name in INTERPOLATIONS
        for share in shares
    }
    aggs |= {"median": agg.median("v"), "distinct": agg.count_distinct("v")}
    found = aggregate(rows, on="ts", size=700, by="k", aggs=aggs)
    frame = pl.from_arrow(rows).with_columns(window=pl.col("ts") // 700 * 700)
    value = pl.col("v")
    theirs = frame.group_by("window", "k").agg(
        value.median().alias("median"),
        value.drop_nulls().n_unique().alias("distinct").cast(pl.Int64),
        *(
            value.quantile(share, interpolation=name).alias(f"{name} {share}")
            for name in INTERPOLATIONS
            for share in shares
        ),
    )
    theirs = theirs.sort("window", "k")
    for name in aggs:
        if name.startswith("linear"):
            assert_close(found[name], theirs[name].to_list())
        else:
            assert found[name].to_pylist() == theirs[name].to_list(), name
    continuous = duckdb.sql(
        "SELECT quantile_cont(v, 0.2) AS q, median(v) AS m, count(DISTINCT v) AS d "
        "FROM rows GROUP BY ts // 700, k ORDER BY ts // 700, k"
    ).arrow()
    continuous = continuous.read_all() if hasattr(continuous, "read_all") else continuous
    assert_close(found["linear 0.2"], continuous["q"].to_pylist())
    assert found["median"].to_pylist() == continuous["m"].to_pylist()
    assert found["distinct"].to_pylist() == continuous["d"].to_pylist()


def test_all_values_of_sliding_windows_and_sessions():
    first, second = table(5, 500, 3), table(6, 700, 3)
    aggs = {"median": agg.median("v"), "all": agg.collect("w"), "n": agg.count()}
    merged = pa.concat_tables([first, second])
    # Rows are ordered by time, then stream, then position.
    merged = merged.take(np.argsort(merged["ts"].to_numpy(), kind="stable"))
    for windows in ({"size": 500, "advance": 90}, {"size": 30, "advance": 70}, {"session": 12}):
        found = aggregate([first, second], on="ts", by="k", aggs=aggs, **windows)
        assert found.equals(aggregate(merged, on="ts", by="k", aggs=aggs, **windows))
        for row in found.to_pylist():
            is_in = pc.and_(
                pc.equal(merged["k"], row["k"]),
                pc.and_(
                    pc.greater_equal(merged["ts"], row["window_start"]),
                    pc.less(merged["ts"], row["window_end"]),
                ),
            )
            mine = merged.filter(is_in)
            assert row["n"] == mine.num_rows
            assert row["all"] == mine["w"].to_pylist()
            known = mine["v"].drop_null().to_numpy()
            assert row["median"] == (np.median(known) if len(known) else None)


def test_values_of_every_type_are_counted_once():
    values = pa.table(
        {
            "ts": [0] * 6,
            "float": [0.0, -0.0, float("nan"), -float("nan"), 1.0, None],
            "text": ["a", "b", "a", None, "", ""],
            "money": [Decimal("1.25"), Decimal("1.50"), Decimal("1.25"), None, None, None],
            "flag": [True, True, None, None, None, None],
            "day": pa.array([3, 3, 4, 5, None, 5], pa.date32()),
            "code": pa.array(["x", "y", "x", None, "x", "x"]).dictionary_encode(),
            "unsigned": pa.array([2**64 - 1, 0, 2**64 - 1, 1, None, 1], pa.uint64()),
        }
    )
    aggs = {name: agg.count_distinct(name) for name in values.column_names[1:]}
    found = aggregate(values, on="ts", size=1, aggs=aggs).to_pylist()[0]
    assert [found[name] for name in aggs] == [3, 3, 2, 1, 3, 2, 3]
    of_partners = interval_join(values.select(["ts"]), values, on="ts", lower=0, upper=0, aggs=aggs)
    assert of_partners.to_pylist()[-1] == {"ts": 0} | {name: found[name] for name in aggs}
    lists = pa.table({"ts": [0], "l": [[1]]})
    with pytest.raises(SchemaError, match=r"count_distinct of column `l` .*: expected numbers"):
        aggregate(lists, on="ts", size=1, aggs={"n": agg.count_distinct("l")})


@pytest.mark.parametrize("threads", [1, 2])
def test_covariances_are_those_of_numpy(threads):
    left, right = table(7, 300, 3), table(8, 900, 3)
    aggs = {
        "covar": agg.covar("v", "w"),
        "corr": agg.corr("v", "w"),
        "alone": agg.corr("v", "v", where="row.w > 2"),
        "var": agg.covar("w", "w"),
        "one": agg.corr("w", "w"),
    }
    query = {"on": "ts", "by": "k", "lower": -90, "upper": 10, "threads": threads}
    found = interval_join(left, right, **query, aggs=aggs)
    v, w = right["v"].to_numpy(zero_copy_only=False), right["w"].to_numpy()
    wanted: dict[str, list[float | None]] = {name: [] for name in aggs}
    for rows in lists(left, right, -90, 10):
        known = rows[~np.isnan(v[rows])]
        both = np.stack([v[known], w[known]])
        has_two = len(known) > 1
        wanted["covar"].append(np.cov(both)[0, 1] if has_two else None)
        with np.errstate(invalid="ignore"):
            wanted["corr"].append(np.corrcoef(both)[0, 1] if has_two else None)
        wanted["var"].append(np.var(w[rows], ddof=1) if len(rows) > 1 else None)
        wanted["one"].append(1.0 if len(rows) > 1 else None)
    for name in ("covar", "corr", "var", "one"):
        assert_close(found[name], wanted[name])
    assert found["alone"].null_count == found.num_rows
    scanned = interval_join(left, right, **query, aggs=aggs, where="left.w + right.w > -1")
    for name in ("covar", "corr", "var"):
        assert_close(scanned[name], found[name].to_pylist())


def test_a_correlation_stays_within_one_and_survives_large_numbers():
    rows = pa.table(
        {
            "ts": [0, 0, 0, 1, 1, 2, 2, 3],
            "x": [1e150, 2e150, 3e150, 1e-200, 2e-200, 5.0, 5.0, 1.0],
            "y": [3.0, 2.0, 1.0, 1e-200, 2e-200, 1.0, 2.0, 1.0],
        }
    )
    found = aggregate(rows, on="ts", size=1, aggs={"r": agg.corr("x", "y")})["r"].to_pylist()
    assert found[0] == pytest.approx(-1.0, abs=1e-12)
    assert found[1] != found[1], "their squares underflow"
    assert found[2] != found[2], "one column is constant"
    assert found[3] is None


def test_the_row_of_an_extreme_is_the_first_and_may_hold_null():
    rows = pa.table(
        {
            "ts": [3, 1, 2, 2, 9],
            "by": [5.0, 5.0, 7.0, float("nan"), None],
            "v": ["c", "a", None, "d", "e"],
        }
    )
    aggs = {
        "least": agg.arg_min("v", "by"),
        "most": agg.arg_max("v", "by"),
        "large": agg.arg_max("v", "by", where="row.ts <= 2 AND row.by < 100"),
    }
    found = aggregate(rows, on="ts", size=8, aggs=aggs).to_pylist()
    assert [list(row.values())[2:] for row in found] == [["a", "d", None], [None, None, None]]
    words = aggregate(rows, on="ts", size=8, aggs={"v": agg.arg_max("by", "v")})
    assert words["v"].to_pylist()[1] is None
    streaming = Aggregate(rows.schema, on="ts", size=8, aggs=aggs, lateness=10)
    streaming.sources[0].push(rows)
    streaming.sources[0].close()
    assert [row for batch in streaming for row in batch.to_pylist()] == found


def spread(prices: pa.ListArray) -> list[float]:
    """Return the largest value less the smallest, or null for lists of nulls."""
    lists = ([price for price in one if price is not None] for one in prices.to_pylist())
    return [max(prices) - min(prices) if prices else None for prices in lists]


def test_a_function_of_ones_own_is_called_with_lists():
    rows = table(9, 2_000, 4)
    own = agg.udf(spread, "v", pa.float64())
    aggs = {"own": own, "least": agg.min("v"), "most": agg.max("v")}
    for windows in ({"size": 300, "advance": 100}, {"session": 20}):
        found = aggregate(rows, on="ts", by="k", aggs=aggs, **windows)
        wanted = pc.subtract(found["most"], found["least"])
        assert found["own"].to_pylist() == wanted.to_pylist()
    query = {"on": "ts", "by": "k", "lower": -50, "upper": 50, "aggs": aggs}
    found = interval_join(rows, rows.slice(500), **query)
    assert found["own"].to_pylist() == pc.subtract(found["most"], found["least"]).to_pylist()
    assert found["own"].null_count > 0
    batches = interval_join_batches(rows, rows.slice(500), **query, batch_rows=7)
    assert pa.Table.from_batches(batches, batches.schema).equals(found)
    windows = {"window": (20, 20), "by": "k", "on": "ts"}
    assert window_join(rows, rows, aggs=aggs, **windows)["own"].null_count < rows.num_rows
    band = band_join(rows, rows, on="w", within=0.01, aggs=aggs)
    assert band["own"].to_pylist() == pc.subtract(band["most"], band["least"]).to_pylist()


def test_a_function_is_called_for_many_windows_at_once():
    calls: list[int] = []

    def both(v: pa.ListArray, w: pa.ListArray) -> pa.Array:
        assert v.value_lengths().equals(w.value_lengths())
        assert pc.min(v.value_lengths()).as_py() > 0
        calls.append(len(v))
        return pa.array([str(len(values)) for values in v], pa.string())

    rows = table(10, 20_000, 1)
    aggs = {"n": agg.udf(both, ["v", "w"], pa.string(), where="row.w > 0.1"), "m": agg.count()}
    found = aggregate(rows, on="ts", size=50, aggs=aggs)
    assert found.schema.field("n").type == pa.string()
    assert sum(calls) == found.num_rows - found["n"].null_count
    assert len(calls) < 20
    calls.clear()
    query = {"on": "ts", "lower": -50, "upper": 0, "aggs": aggs}
    assert interval_join(rows, rows, **query).num_rows == rows.num_rows
    assert len(calls) < 20


def test_long_windows_are_listed_some_at_a_time():
    listed: list[int] = []

    def length(lists: pa.ListArray) -> pa.Array:
        listed.append(len(lists.values))
        return lists.value_lengths()

    count = 40_000
    rows = pa.table({"ts": range(count), "k": [row % 3 for row in range(count)], "v": range(count)})
    others = {
        "n": agg.count(),
        "half": agg.count(where="row.v < 20000"),
        "median": agg.median("v", where="row.v > 30000"),
        "last": agg.last("v"),
        "distinct": agg.count_distinct("k"),
    }
    aggs = {"length": agg.udf(length, "v", pa.int32())} | others
    windows = {"on": "ts", "by": "k", "size": 10_000, "advance": 25}
    found = aggregate(rows, **windows, aggs=aggs)
    assert found["length"].to_pylist() == found["n"].to_pylist()
    assert found.drop("length").equals(aggregate(rows, **windows, aggs=others))
    assert sum(listed) == pc.sum(found["n"]).as_py() > 3 * max(listed)
    assert max(listed) <= 1 << 22


def test_a_function_may_return_what_pyarrow_makes_an_array_of():
    rows = pa.table({"ts": [0, 1, 2], "v": [1, 2, 3]})
    returned = {
        "list": lambda lists: [1] * len(lists),
        "numpy": lambda lists: np.ones(len(lists), np.int64),
        "chunked": lambda lists: pa.chunked_array([[1], [1] * (len(lists) - 1)]),
        "polars": lambda lists: pl.Series([1] * len(lists)),
    }
    for name, function in returned.items():
        aggs = {"one": agg.udf(function, "v", pa.int64())}
        found = aggregate(rows, on="ts", size=1, aggs=aggs)
        assert found["one"].to_pylist() == [1, 1, 1], name
    nested = agg.udf(lambda lists: lists, "v", pa.list_(pa.int64()))
    assert aggregate(rows, on="ts", size=2, aggs={"l": nested})["l"].to_pylist() == [[1, 2], [3]]


def failing(_: pa.ListArray) -> None:
    message = "no such luck"
    raise LookupError(message)


@pytest.mark.parametrize(
    ("function", "returns", "words"),
    [
        (failing, pa.int64(), "aggs: `own`: the function raised LookupError: no such luck"),
        (
            lambda lists: lists.value_lengths(),
            pa.int64(),
            "the function returned int32, but returns=",
        ),
        (lambda _: [1], pa.int64(), "the function returned 1 values for 3 windows"),
        (lambda _: [], pa.int64(), "the function returned 0 values for 3 windows"),
        (lambda _: sys.exit(3), pa.int64(), "aggs: `own`: the function raised SystemExit: 3"),
        (
            lambda _: 7,
            pa.int64(),
            "the function returned int; pyarrow cannot build an array of int64",
        ),
        (
            lambda lists: ["x"] * len(lists),
            pa.int64(),
            "the function returned list; pyarrow cannot build an array of int64",
        ),
    ],
)
def test_a_function_that_fails_says_how(function, returns, words):
    rows = pa.table({"ts": [0, 1, 2], "v": [1, 2, 3]})
    aggs = {"own": agg.udf(function, "v", returns)}
    with pytest.raises(TidegateError, match=words) as windows:
        aggregate(rows, on="ts", size=1, aggs=aggs)
    with pytest.raises(TidegateError, match=words):
        interval_join(rows, rows, on="ts", lower=0, upper=0, aggs=aggs)
    if function is failing:
        assert isinstance(windows.value.__cause__, LookupError)
        assert windows.value.__cause__.__traceback__ is not None


def test_aggregates_can_be_compared_pickled_and_read():
    own = agg.udf(spread, ["v"], pa.float64(), where="row.v > 1")
    assert pickle.loads(pickle.dumps(own)) == own
    assert own.columns == ["v"]
    assert agg.quantile("v", 0.5) != agg.quantile("v", 0.6)
    assert repr(agg.quantile("v", 0.5)) == (
        "Aggregate(function='quantile', column='v', share=0.5, interpolation='linear')"
    )
    assert repr(agg.corr("v", "w")) == "Aggregate(function='corr', column='v', second='w')"
    with pytest.raises(TypeError, match="returns: expected an Arrow type"):
        agg.udf(spread, "v", float)
    with pytest.raises(TypeError, match="function: expected a function"):
        agg.udf("spread", "v", pa.float64())


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (agg.quantile("v", 1.5), TidegateError, "a share from 0 to 1, such as 0.99"),
        (agg.quantile("v", float("nan")), TidegateError, "a share from 0 to 1"),
        (agg.quantile("v", 0.5, interpolation="cubic"), TidegateError, "must be one of linear"),
        (agg.median("s"), SchemaError, "median of column `s` of type .*: expected numbers"),
        (agg.Aggregate("median"), TidegateError, "median needs a column"),
        (agg.Aggregate("corr", "v"), TidegateError, "corr needs two columns"),
        (agg.corr("v", "s"), SchemaError, "corr by column `s` of type .*: expected numbers"),
        (agg.arg_min("v", "l"), SchemaError, "arg_min by column `l` .*: expected numbers, times"),
        (agg.arg_min("v", "nope"), SchemaError, "no column `nope`"),
        (agg.Aggregate("mean", "v", None, "s"), TidegateError, "mean accepts one column, got 2"),
        (agg.udf(spread, [], pa.float64()), TidegateError, "name one in inputs"),
    ],
)
def test_refusals_say_what_to_write(function, error, words):
    rows = pa.table({"ts": [0], "v": [1.0], "s": ["a"], "l": [[1]]})
    with pytest.raises(error, match=words):
        aggregate(rows, on="ts", size=1, aggs={"a": function})
    with pytest.raises(error, match=words):
        interval_join(rows, rows, on="ts", lower=0, upper=0, aggs={"a": function})


def test_streams_keep_rows_until_their_windows_are_complete():
    rows = table(11, 4_000, 3)
    aggs = {
        "m": agg.median("v"),
        "all": agg.collect("w"),
        "own": agg.udf(spread, "v", pa.float64()),
    }
    for windows in ({"size": 500, "advance": 90}, {"size": 30, "advance": 70}, {"session": 12}):
        query = {"on": "ts", "by": "k", "aggs": aggs, **windows}
        whole = aggregate(rows, **query).to_pylist()
        if "session" in windows:
            whole.sort(key=lambda row: (row["window_end"], row["k"]))
        streaming = Aggregate(rows.schema, **query)
        found, most = [], 0
        for start in range(0, rows.num_rows, 97):
            streaming.sources[0].push(rows.slice(start, 97))
            snapshot = streaming.snapshot()
            streaming = Aggregate(rows.schema, **query)
            streaming.restore(snapshot)
            found += [row for batch in iter(streaming.poll, None) for row in batch.to_pylist()]
            most = max(most, streaming.stats()["state_rows"])
        streaming.sources[0].close()
        found += [row for batch in streaming for row in batch.to_pylist()]
        assert found == whole
        assert most < 400
        assert "rows are kept" in streaming.explain()


def test_a_stream_goes_on_after_a_function_has_failed():
    fails: list[RuntimeError] = []

    def moody(lists: pa.ListArray) -> pa.Array:
        if fails:
            raise fails.pop()
        return lists.value_lengths()

    own = agg.udf(moody, "v", pa.int32())
    rows = pa.table({"ts": [1, 2, 7, 20], "v": [1.0, 2.0, 3.0, 4.0]})
    windows = Aggregate(rows.schema, on="ts", size=5, aggs={"n": own})
    join = IntervalJoin(rows.schema, rows.schema, on="ts", lower=-5, upper=0, aggs={"n": own})
    for operator, wanted in ((windows, [2, 1, 1]), (join, [1, 2, 2, 1])):
        fails.append(RuntimeError("not now"))
        for source in operator.sources:
            source.push(rows)
            source.close()
        with pytest.raises(TidegateError, match="the function raised RuntimeError: not now"):
            operator.poll()
        found = [row["n"] for batch in operator for row in batch.to_pylist()]
        assert found == wanted


@pytest.mark.parametrize("windows", [{"session": 10}, {"size": 20, "advance": 7}])
def test_what_a_stream_keeps_depends_on_its_rows_alone(windows):
    rows = table(12, 600, 2)
    query = {"on": "ts", "by": "k", "aggs": {"m": agg.median("v")}, "where": "w < 0.4", **windows}
    first, second = (Aggregate(rows.schema, **query, threads=threads) for threads in (1, 2))
    found: tuple[list, list] = ([], [])
    for start in range(0, rows.num_rows, 20):
        for operator, into in zip((first, second), found, strict=True):
            operator.sources[0].push(rows.slice(start, 20))
            if operator is second or start % 60 == 0:
                into += [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
        if start % 60 == 0:
            assert first.snapshot() == second.snapshot()
    for operator, into in zip((first, second), found, strict=True):
        operator.sources[0].close()
        into += [row for batch in operator for row in batch.to_pylist()]
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_a_row_that_a_condition_leaves_out_may_be_at_the_end_of_time():
    rows = pa.table({"ts": [1, 2**63 - 1], "v": [1.0, 2.0]})
    for where, wanted in (("ts < 1000", [1.0]), (None, None)):
        windows = Aggregate(rows.schema, on="ts", size=5, aggs={"m": agg.median("v")}, where=where)
        if wanted is None:
            with pytest.raises(
                TidegateError, match=r"row 1: .*begins or ends outside the 64-bit range"
            ):
                windows.sources[0].push(rows)
        else:
            windows.sources[0].push(rows)
            windows.sources[0].close()
            assert [row["m"] for batch in windows for row in batch.to_pylist()] == wanted
