"""Aggregates of partners, compared with the nested loop, for every join and any chunks."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import oracle
import partner_oracle
from drawing import CLOSED, calls
from tidegate import (
    SchemaError,
    TidegateError,
    agg,
    band_join,
    explain,
    interval_join,
    interval_join_batches,
    rows,
    window_join,
)

VALUES = [None, 0.25, -1.5, 0.0, 2.0, float("nan"), float("inf")]


@st.composite
def partner_calls(draw: st.DrawFn):
    """Draw two tables, a join for the oracle, and the arguments of this join with aggregates."""
    left, right, join, arguments = draw(calls())
    drawn = draw(
        st.lists(st.sampled_from(VALUES), min_size=right.num_rows, max_size=right.num_rows)
    )
    right = right.append_column("v", pa.array(drawn, pa.float64()))
    text = ["a" * (row % 3) if row % 4 else None for row in range(right.num_rows)]
    right = right.append_column("s", pa.array(text, pa.string()))
    bits = st.sampled_from([True, False, None])
    drawn = draw(st.lists(bits, min_size=right.num_rows, max_size=right.num_rows))
    right = right.append_column("b", pa.array(drawn, pa.bool_()))
    how = draw(st.sampled_from(["left", "inner"]))
    prevailing = join.lower is not None and draw(st.booleans())
    arguments |= {"how": how, "aggs": partner_oracle.AGGS, "prevailing": prevailing}
    one_side = draw(st.sampled_from([None, None, "right.x > 0", "left.x > 0 and right.x > 0"]))
    if one_side is not None:
        needs_left = "left" in one_side

        def holds(a: oracle.Row, b: oracle.Row) -> bool:
            return (b["x"] or 0) > 0 and (not needs_left or (a["x"] or 0) > 0)

        join, arguments["where"] = replace(join, where=holds), one_side
    return left, right, replace(join, how=how), arguments


@given(partner_calls())
def test_interval_joins_are_those_of_the_nested_loop(call):
    left, right, join, arguments = call
    found = interval_join(left, right, **arguments)
    partners = partner_oracle.partners(left, right, join, prevailing=arguments["prevailing"])
    oracle.assert_same(found, partner_oracle.expected(left, right, partners, join.how))


@given(partner_calls(), st.integers(1, 8), st.integers(1, 20))
def test_batches_threads_and_chunks_change_nothing(call, threads, batch_rows):
    left, right, _, arguments = call
    found = interval_join(left, right, **arguments)
    copies = [pa.Table.from_pylist(table.to_pylist(), table.schema) for table in (left, right)]
    arguments |= {"threads": threads, "batch_rows": batch_rows}
    reader = interval_join_batches(*copies, **arguments)
    batches = list(reader)
    assert all(batch.num_rows <= batch_rows for batch in batches)
    assert reader.stats()["rows"] == found.num_rows
    oracle.assert_same(pa.Table.from_batches(batches, reader.schema), found)


EXTREMES = [-(2**63), -(2**63) + 1, -3, -2, -1, 0, 1, 2, 3, 2**63 - 2, 2**63 - 1]


@given(
    st.lists(st.sampled_from(EXTREMES), max_size=8),
    st.lists(st.sampled_from(EXTREMES), max_size=8),
    st.tuples(*[st.one_of(st.none(), st.sampled_from(EXTREMES))] * 2),
    st.sampled_from(CLOSED),
    st.booleans(),
)
def test_sums_beyond_64_bits_saturate(left_times, right_times, bounds, closed, prevailing):
    lower, upper = bounds if None in bounds else sorted(bounds)
    prevailing = prevailing and lower is not None
    left = pa.table({"ts": pa.array(left_times, pa.int64())})
    right = pa.table({"ts": pa.array(right_times, pa.int64())})
    right = right.append_column("r", pa.array(range(right.num_rows), pa.int64()))
    join = oracle.Join(("ts", "ts"), lower, upper, closed=closed)
    partners = partner_oracle.partners(left, right, join, prevailing=prevailing)
    found = interval_join(
        left,
        right,
        on="ts",
        lower=lower,
        upper=upper,
        closed=closed,
        prevailing=prevailing,
        aggs={
            "n": agg.count(),
            "sum": agg.sum("r"),
            "first": agg.first("r"),
            "last": agg.last("r"),
        },
    )
    assert found["n"].to_pylist() == [len(places) for places in partners]
    assert found["sum"].to_pylist() == [sum(places) if places else None for places in partners]
    assert found["first"].to_pylist() == [places[0] if places else None for places in partners]
    assert found["last"].to_pylist() == [places[-1] if places else None for places in partners]


def table(seed: int, count: int, keys: int, *, is_sorted: bool = True) -> pa.Table:
    """Create random rows. Times are integers, few of which are equal."""
    random = np.random.default_rng(seed)
    times = random.integers(0, 40 * count, count)
    if is_sorted:
        times.sort()
    return pa.table(
        {
            "ts": times,
            "k": random.integers(0, keys, count),
            "v": random.standard_normal(count),
            "x": random.integers(0, 100, count),
        }
    )


FLOATS = {
    "sum": agg.sum("v"),
    "mean": agg.mean("v"),
    "var": agg.var("v"),
    "max": agg.max("v"),
    "some": agg.sum("v", where="row.x > 50"),
}


@pytest.mark.parametrize("keys", [1, 50, 20_000])
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("where", [None, "right.x > 10", "left.x > right.x"])
def test_floats_have_the_same_bits_with_any_threads_and_order_of_rows(keys, is_sorted, where):
    left, right = table(1, 60_000, keys), table(2, 60_000, keys)
    width = 40 * 40 * keys if where is None else 40 * 8 * keys
    arguments = {"on": "ts", "by": "k", "lower": -width, "upper": 3, "where": where, "aggs": FLOATS}
    found = interval_join(left, right, **arguments, threads=1)
    if not is_sorted:
        # Rows with equal times keep their order.
        order = np.random.default_rng(3).permutation(60_000)
        left = left.take(order)
        right = right.take(np.argsort(np.arange(60_000) % 7, kind="stable"))
        right = right.take(np.lexsort((right["ts"].to_numpy(), right["x"].to_numpy())))
        ties = right.group_by("ts").aggregate([("v", "count")])
        right = right.filter(
            pa.compute.is_in(right["ts"], ties.filter(pa.compute.equal(ties["v_count"], 1))["ts"])
        )
        sorted_right = right.sort_by("ts")
        found = interval_join(left, sorted_right, **arguments, threads=1)
    again = interval_join(left, right, **arguments, threads=7)
    for name in FLOATS:
        bits = [
            pa.compute.fill_null(result[name], 0.0).to_numpy().view(np.int64)
            for result in (found, again)
        ]
        np.testing.assert_array_equal(*bits)


SHARING = FLOATS | {
    "std": agg.std("v"),
    "min": agg.min("v"),
    "some mean": agg.mean("v", where="row.x > 50"),
    "other": agg.sum("x"),
    "other mean": agg.mean("x"),
    "covar": agg.covar("v", "x"),
    "corr": agg.corr("v", "x"),
    "swapped": agg.covar("x", "v"),
    "self": agg.covar("v", "v"),
}


@pytest.mark.parametrize("has_nulls", [False, True])
def test_functions_of_one_column_are_those_that_each_is_alone(has_nulls):
    left, right = table(1, 5_000, 20), table(2, 5_000, 20)
    if has_nulls:
        gone = np.random.default_rng(3).random(right.num_rows) < 0.3
        values = pa.array(right["v"].to_numpy(), mask=gone)
        right = right.set_column(right.schema.get_field_index("v"), "v", values)
    arguments = {"on": "ts", "by": "k", "lower": -2_000, "upper": 3}
    together = interval_join(left, right, **arguments, aggs=SHARING)
    for name, function in SHARING.items():
        alone = interval_join(left, right, **arguments, aggs={name: function})
        # NaN equals itself here.
        assert together[name].to_numpy().tobytes() == alone[name].to_numpy().tobytes(), name


@pytest.mark.parametrize("window", [3, (5, 2), 0])
@pytest.mark.parametrize("how", ["left", "inner"])
def test_time_windows_are_intervals(window, how):
    left, right = table(4, 500, 3), table(5, 500, 3)
    left = left.set_column(0, "ts", pa.array(np.arange(500) // 2))
    right = right.set_column(0, "ts", pa.array(np.arange(500) // 3))
    of_left, of_right = window if isinstance(window, tuple) else (window, window)
    found = window_join(left, right, on="ts", window=window, by="k", how=how, aggs=FLOATS)
    wanted = interval_join(
        left, right, on="ts", by="k", lower=-of_right, upper=of_left, how=how, aggs=FLOATS
    )
    oracle.assert_same(found, wanted)


def pairs_then_groups(pairs: pa.Table, left: pa.Table, how: str) -> list[tuple[object, ...]]:
    """Return the count, sum and maximum of each left row's pairs; `l` is the row's number."""
    found: dict[int, list[int]] = {row: [] for row in range(left.num_rows)}
    for row, value in zip(pairs["l"].to_pylist(), pairs["x_right"].to_pylist(), strict=True):
        found[row].append(value)
    return [
        (row, len(values), sum(values) if values else None, max(values, default=None))
        for row, values in found.items()
        if values or how == "left"
    ]


JOINS = {
    "rows": (window_join, {"on": "ts", "window": rows(20)}),
    "rows, keys": (window_join, {"on": "ts", "window": (rows(9), rows(30)), "by": "k"}),
    "band": (band_join, {"on": "v", "within": 0.05}),
    "two bands": (band_join, {"on": ["v", "x"], "within": [0.3, 9], "by": "k"}),
    "band, time": (band_join, {"on": "v", "within": 0.5, "time": "ts", "window": 400}),
    "band, rows": (
        band_join,
        {"on": "v", "within": 0.5, "time": "ts", "window": rows(50), "by": "k"},
    ),
    "interval, scanned": (
        interval_join,
        {"on": "ts", "lower": -900, "upper": 900, "where": "left.x + right.x > 120"},
    ),
    "interval, may fail": (
        interval_join,
        {"on": "ts", "lower": -900, "upper": 900, "where": "100 / (right.x + 1) < 4"},
    ),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_aggregates_are_those_of_the_pairs(name, how, is_sorted):
    join, arguments = JOINS[name]
    left, right = (table(seed, 700, 4, is_sorted=is_sorted) for seed in (6, 7))
    left = left.append_column("l", pa.array(range(700)))
    pairs = join(left, right, **arguments)
    aggs = {"n": agg.count(), "sum": agg.sum("x"), "max": agg.max("x")}
    found = join(left, right, **arguments, how=how, aggs=aggs, columns=["l"])
    rows_found = list(
        zip(*(found[column].to_pylist() for column in ("l", "n", "sum", "max")), strict=True)
    )
    assert rows_found == pairs_then_groups(pairs, left, how)
    assert found.num_rows > 300


def test_functions_see_the_pairs_of_a_band_by_right_row_number():
    left = pa.table({"x": [10]})
    right = pa.table({"x": [11, 9, 10], "name": ["a", "b", "c"]})
    aggs = {"first": agg.first("name"), "last": agg.last("name")}
    found = band_join(left, right, on="x", within=1, aggs=aggs)
    assert found.to_pylist() == [{"x": 10, "first": "a", "last": "c"}]


TRADES = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"]})
QUOTES = pa.table({"ts": [8, 10, 19, 28], "sym": ["A", "A", "C", "A"], "bid": [9.0, 8.0, 7.0, 5.0]})
CALL = {"on": "ts", "by": "sym", "lower": -2, "upper": 0}


def test_all_left_rows_come_unless_asked_otherwise():
    found = interval_join(TRADES, QUOTES, **CALL, aggs={"n": agg.count(), "bid": agg.mean("bid")})
    assert found.to_pylist() == [
        {"ts": 10, "sym": "A", "n": 2, "bid": 8.5},
        {"ts": 20, "sym": "B", "n": 0, "bid": None},
        {"ts": 30, "sym": "A", "n": 1, "bid": 5.0},
    ]


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"how": "full"}, TidegateError, 'give "left" for all of them'),
        ({"how": "semi"}, TidegateError, 'got "semi"'),
        ({"columns": ["n"]}, SchemaError, "the result has no column `n`"),
        ({"aggs": {"ts": agg.count()}}, SchemaError, "two columns `ts`"),
        ({"aggs": {}}, TidegateError, "at least one function"),
        (
            {"aggs": {"a": agg.sum("sym")}},
            SchemaError,
            "sum of column `sym` of type .*: expected numbers",
        ),
        ({"aggs": {"a": agg.sum("nope")}}, SchemaError, "right: there is no column `nope`"),
        ({"aggs": {"a": agg.count(where="row.nope > 1")}}, SchemaError, "no column `nope`"),
        ({"aggs": {"a": agg.any("bid")}}, SchemaError, "any of column `bid` .*: expected booleans"),
        (
            {"aggs": {"a": agg.weighted_mean("bid", "sym")}},
            SchemaError,
            "by column `sym` .*: expected numbers",
        ),
        ({"aggs": {"a": agg.weighted_mean("bid", "nope")}}, SchemaError, "no column `nope`"),
        (
            {"aggs": {"a": agg.Aggregate("weighted_mean", "bid")}},
            TidegateError,
            "needs the column of the weights",
        ),
        (
            {"aggs": {"a": agg.Aggregate("sum", "bid", None, "bid")}},
            TidegateError,
            "sum accepts one column, got 2",
        ),
        ({"aggs": ["n"]}, TypeError, "expected a mapping"),
        ({"aggs": {"a": "count"}}, TypeError, "expected a function such as"),
        ({"aggs": None, "prevailing": True}, TidegateError, "give aggs"),
        ({"lower": None, "prevailing": True}, TidegateError, "without a lower bound"),
    ],
)
def test_refusals_say_what_to_write(changed, error, words):
    arguments = CALL | {"aggs": {"n": agg.count()}} | changed
    with pytest.raises(error, match=words):
        interval_join(TRADES, QUOTES, **arguments)


def test_an_algorithm_of_pairs_is_refused():
    with pytest.raises(TidegateError, match="have their own algorithm"):
        window_join(
            TRADES, QUOTES, on="ts", window=2, algorithm="scalejoin", aggs={"n": agg.count()}
        )


@pytest.mark.parametrize("how", ["left", "inner"])
def test_max_rows_counts_rows_of_the_result(how):
    call = CALL | {"aggs": {"n": agg.count()}, "how": how}
    kept = {"left": 3, "inner": 2}[how]
    assert interval_join(TRADES, QUOTES, **call, max_rows=kept).num_rows == kept
    with pytest.raises(TidegateError, match=f"max_rows = {kept - 1}"):
        interval_join(TRADES, QUOTES, **call, max_rows=kept - 1)


def test_a_sum_that_does_not_fit_names_the_left_row():
    right = pa.table({"ts": [1, 2, 3], "x": pa.array([1, 2**62, 2**62])})
    with pytest.raises(
        TidegateError, match=r"`s`: for left row 1 .* the sum .* does not fit int64"
    ):
        interval_join(
            pa.table({"ts": [1, 3]}), right, on="ts", lower=-1, upper=0, aggs={"s": agg.sum("x")}
        )


def test_explain_says_how_partners_are_folded():
    call = CALL | {"aggs": {"n": agg.count(), "bid": agg.mean("bid", where="row.bid > 0")}}
    text = explain(interval_join, TRADES, QUOTES, **call, prevailing=True)
    assert "interval_join (left), aggregates of partners" in text
    assert "n = count(), bid = mean(bid) where row.bid > 0" in text
    assert "one combination per left row" in text
    assert "prevailing" in text
    scanned = explain(interval_join, TRADES, QUOTES, **call, where="left.ts > right.bid")
    assert "added one by one" in scanned


def test_the_work_of_a_left_row_does_not_grow_with_its_partners():
    """With a million partners per row, a pass over all pairs would take hours."""
    count = 1_000_000
    ts = pa.array(np.arange(count))
    right = pa.table({"ts": ts, "v": pa.array(np.ones(count))})
    found = interval_join(
        pa.table({"ts": ts}),
        right,
        on="ts",
        lower=-2 * count,
        upper=2 * count,
        aggs={"n": agg.count(), "sum": agg.sum("v"), "max": agg.max("v"), "std": agg.std("v")},
    )
    assert found.select(["n", "sum", "max", "std"]).slice(12_345, 1).to_pylist() == [
        {"n": count, "sum": float(count), "max": 1.0, "std": 0.0}
    ]
    assert found["sum"].unique().to_pylist() == [float(count)]
