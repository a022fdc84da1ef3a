"""The overlap join, compared with a nested loop, DuckDB and literal results."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import tidegate as tg

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
CALLED = {"on": (("start", "end"), ("from", "to"))}

Interval = tuple[Any, Any]
Pairs = list[tuple[int | None, int | None]]


def overlaps(left: Interval, right: Interval, closed: str, least: Any) -> bool:
    """Return whether two rows match, by the definition."""
    if None in (*left, *right):
        return False
    common = min(left[1], right[1]) - max(left[0], right[0])
    if least is not None and common < least:
        return False
    if closed == "both":
        return left[0] <= right[1] and right[0] <= left[1]
    both_long = left[0] < left[1] and right[0] < right[1]
    return both_long and left[0] < right[1] and right[0] < left[1]


def nested_loop(
    left: pa.Table, right: pa.Table, how: str, pair: Callable[[dict, dict], bool]
) -> Pairs:
    """Return the row numbers of the result in order, with None for a side without a row."""
    lefts, rights = left.to_pylist(), right.to_pylist()
    matched = [[j for j, b in enumerate(rights) if pair(a, b)] for a in lefts]
    return oracle.listed(matched, how, len(rights))


def rows(table: pa.Table) -> Pairs:
    """Return the row numbers in a result."""
    right = table["r"].to_pylist() if "r" in table.column_names else [None] * table.num_rows
    return list(zip(table["l"].to_pylist(), right, strict=True))


TYPES = [
    (pa.int64(), 1),
    (pa.int32(), 1),
    (pa.timestamp("us"), dt.timedelta(microseconds=1)),
    (pa.timestamp("s"), dt.timedelta(seconds=1)),
    (pa.date32(), dt.timedelta(days=1)),
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, Any]:
    """Draw two tables with intervals of one type, and the length of a step."""
    type_, step = draw(st.sampled_from(TYPES))
    length = st.one_of(st.integers(0, 5), st.integers(0, 5), st.integers(20, 99))
    times = st.integers(0, 40)
    if type_ == pa.int64():
        times = st.one_of(times, times, st.sampled_from([-(2**63), 2**63 - 1, 2**62]))
    sides = []
    for names in (("start", "end", "l"), ("from", "to", "r")):
        starts = draw(st.lists(st.one_of(times, times, times, st.none()), max_size=30))
        if draw(st.booleans()):
            starts.sort(key=lambda start: (start is None, start))
        count = len(starts)
        lengths = draw(st.lists(length, min_size=count, max_size=count))
        ends = [
            None if start is None or more == 5 else min(start + more, 2**63 - 1)
            for start, more in zip(starts, lengths, strict=True)
        ]
        wide = pa.int64() if type_.bit_width == 64 else pa.int32()
        columns = [pa.array(values, wide).cast(type_) for values in (starts, ends)]
        keys = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=count, max_size=count))
        numbers = pa.array(range(count), pa.int64())
        table = pa.table([*columns, numbers, pa.array(keys, pa.string())], [*names, "k"])
        cuts = draw(st.integers(1, 40))
        sides.append(pa.Table.from_batches(table.to_batches(cuts), table.schema))
    return sides[0], sides[1], step


@given(
    tables(),
    st.sampled_from(HOWS),
    st.sampled_from([None, "k"]),
    st.sampled_from(["both", "left"]),
    st.sampled_from([None, 0, 1, 3]),
    st.sampled_from([None, "(left.l + right.r) % 3 > 0", "left.l > 5", "right.r < 9"]),
    st.integers(1, 5),
)
def test_oracle_random_tables(drawn, how, by, closed, least, where, threads) -> None:
    left, right, step = drawn
    least = None if least is None else least * step
    kept: dict[str | None, Callable[[int, int], bool]] = {
        None: lambda _a, _b: True,
        "(left.l + right.r) % 3 > 0": lambda a, b: (a + b) % 3 > 0,
        "left.l > 5": lambda a, _b: a > 5,
        "right.r < 9": lambda _a, b: b < 9,
    }

    def pair(a: dict, b: dict) -> bool:
        equal = by is None or (a["k"] is not None and a["k"] == b["k"])
        ends = (a["start"], a["end"]), (b["from"], b["to"])
        return equal and overlaps(*ends, closed, least) and kept[where](a["l"], b["r"])

    wanted = nested_loop(left, right, how, pair)
    query = CALLED | {"by": by, "closed": closed, "min_overlap": least, "where": where}
    found = tg.overlap_join(left, right, **query, how=how, threads=threads)
    assert rows(found) == wanted
    with tg.overlap_join_batches(
        left, right, **query, how=how, threads=threads, batch_rows=7
    ) as batches:
        assert pa.Table.from_batches(batches, found.schema).equals(found)


@given(tables(), st.sampled_from(["left", "inner"]), st.sampled_from([None, "left.l < 9"]))
def test_aggregates_are_those_of_the_pairs(drawn, how, where) -> None:
    left, right, _ = drawn
    right = right.append_column("x", pc.multiply(right["r"], 3))
    functions = {
        "n": tg.agg.count(),
        "sum": tg.agg.sum("x"),
        "first": tg.agg.first("r"),
        "median": tg.agg.median("x"),
    }
    pairs = tg.overlap_join(left, right, **CALLED, by="k", where=where)
    starts = right["from"].to_pylist()
    of: dict[int, list[int]] = {row: [] for row in range(left.num_rows)}
    for row, partner in rows(pairs):
        of[row].append(partner)
    for names in (list(functions), ["n"]):
        found = tg.overlap_join(
            left,
            right,
            **CALLED,
            by="k",
            where=where,
            how=how,
            aggs={name: functions[name] for name in names},
            columns=["l"],
        )
        kept = [row for row, partners in of.items() if partners or how == "left"]
        assert found["l"].to_pylist() == kept
        assert found["n"].to_pylist() == [len(of[row]) for row in kept]
        if "sum" in names:
            partners = [sorted(of[row], key=lambda r: (starts[r], r)) for row in kept]
            wanted = {
                "sum": [3 * sum(rows_) if rows_ else None for rows_ in partners],
                "first": [rows_[0] if rows_ else None for rows_ in partners],
                "median": [3 * float(np.median(rows_)) if rows_ else None for rows_ in partners],
            }
            assert {name: found[name].to_pylist() for name in wanted} == wanted


def intervals(seed: int, count: int, *, is_sorted: bool, keys: int = 24) -> pa.Table:
    """Create intervals, a few of which are very long."""
    random = np.random.default_rng(seed)
    starts = random.integers(0, 1_000_000, count)
    if is_sorted:
        starts.sort()
    lengths = (random.pareto(1.2, count) * 300).astype(np.int64)
    return pa.table(
        {
            "k": random.integers(0, keys, count),
            "start": starts,
            "end": starts + lengths,
            "id": np.arange(count),
        }
    )


IN_SQL = {
    "both": """
        select l.id, r.id as id_right from "left" l join "right" r on l.k = r.k
        and l.start <= r."end" and r.start <= l."end" order by all
    """,
    "left": """
        select l.id, r.id as id_right from "left" l join "right" r on l.k = r.k
        and l.start < r."end" and r.start < l."end" and l.start < l."end" and r.start < r."end"
        order by all
    """,
}


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("closed", ["both", "left"])
def test_many_rows_are_those_of_duckdb(is_sorted, closed):
    left = intervals(1, 30_000, is_sorted=is_sorted)
    right = intervals(2, 20_000, is_sorted=is_sorted)
    wanted = duckdb.sql(IN_SQL[closed]).to_arrow_table()
    assert wanted.num_rows > 50_000
    query = {"on": ("start", "end"), "by": "k", "closed": closed}
    for threads in (1, 2, 8):
        found = tg.overlap_join(left, right, **query, columns=["id", "id_right"], threads=threads)
        assert found.equals(wanted.cast(found.schema))
    counts = tg.overlap_join(left, right, **query, aggs={"n": tg.agg.count()})
    assert counts["n"].to_numpy().tolist() == np.bincount(wanted["id"], minlength=30_000).tolist()
    for how in ("semi", "anti"):
        found = tg.overlap_join(left, right, **query, how=how, columns=["id"])
        has_pairs = pc.is_in(left["id"], value_set=wanted["id"].combine_chunks())
        kept = left.filter(has_pairs if how == "semi" else pc.invert(has_pairs))
        assert found["id"].equals(kept["id"])


def test_a_part_in_common_is_as_long_as_duckdb_says():
    left, right = (intervals(seed, 5_000, is_sorted=False, keys=3) for seed in (3, 4))
    wanted = duckdb.sql(
        'select l.id, r.id as id_right from "left" l join "right" r on l.k = r.k '
        'and least(l."end", r."end") - greatest(l.start, r.start) >= 700 order by all'
    ).to_arrow_table()
    found = tg.overlap_join(
        left, right, on=("start", "end"), by="k", min_overlap=700, columns=["id", "id_right"]
    )
    assert found.num_rows > 100
    assert found.equals(wanted.cast(found.schema))


def test_employees_of_the_same_years():
    # The example of DuckDB's test/sql/join/iejoin/test_iejoin_overlaps.test, after Khayyat and
    # others, "Lightning Fast and Space Efficient Inequality Joins" (VLDB 2015), with different
    # data.
    events = pa.table(
        {
            "event": ["e1", "e2", "e3", "e4"],
            "start": [140, 100, 90, 170],
            "end": [149, 181, 96, 175],
        }
    )
    found = tg.overlap_join(
        events, events, on=("start", "end"), where=tg.left.event < tg.right.event, closed="left"
    )
    assert found.select(["event", "event_right"]).to_pylist() == [
        {"event": "e1", "event_right": "e2"},
        {"event": "e2", "event_right": "e4"},
    ]


def test_polars_finds_the_same():
    left, right = (intervals(seed, 300, is_sorted=False, keys=1) for seed in (5, 6))
    a, b = pl.DataFrame(left), pl.DataFrame(right)
    wanted = a.join_where(
        b, pl.col("start") <= pl.col("end_right"), pl.col("end") >= pl.col("start_right")
    )
    wanted = wanted.select("id", "id_right").sort("id", "id_right")
    found = tg.overlap_join(a, b, on=("start", "end"), columns=["id", "id_right"])
    assert pl.DataFrame(found).equals(wanted)


def test_times_of_different_units_and_points():
    day = dt.date(2024, 5, 1)
    readings = pa.table(
        {"ts": pa.array(["2024-05-01T12:00", "2024-05-04"]).cast(pa.timestamp("ns"))}
    )
    stays = pa.table(
        {
            "from": pa.array([day, day], pa.date32()),
            "to": pa.array(["2024-05-02", "2024-05-04"]).cast(pa.timestamp("s")),
            "guest": ["x", "y"],
        }
    )
    query: dict[str, Any] = {"on": (("ts", "ts"), ("from", "to")), "columns": ["guest"]}
    found = tg.overlap_join(readings, stays, **query)
    assert found["guest"].to_pylist() == ["x", "y", "y"]
    # A point is an empty interval here, because ends do not belong to intervals.
    assert tg.overlap_join(readings, stays, **query, closed="left").num_rows == 0
    half = tg.overlap_join(stays, stays, on=("from", "to"), min_overlap="1d", columns=["guest"])
    assert half["guest"].to_pylist() == ["x", "x", "y", "y"]
    more = tg.overlap_join(
        stays, stays, on=("from", "to"), min_overlap=dt.timedelta(days=1, hours=1)
    )
    assert more["guest"].to_pylist() == ["y"]


def test_a_length_between_two_steps_is_kept_exactly():
    rows_ = pa.table(
        {"s": pa.array([0, 0], pa.timestamp("us")), "e": pa.array([1, 2], pa.timestamp("us"))}
    )
    found = tg.overlap_join(rows_, rows_, on=("s", "e"), min_overlap=np.timedelta64(1500, "ns"))
    assert found["e"].cast(pa.int64()).to_pylist() == [2]


def test_columns_of_every_how():
    left = pa.table({"start": [1, 8], "end": [5, 9], "k": ["a", "b"], "v": [1.5, 2.5]})
    right = pa.table({"start": [4, 7], "end": [6, 7], "k": ["a", "c"], "w": [1, 2]})
    names = ["start", "end", "k", "v", "start_right", "end_right", "w"]
    for how in HOWS:
        found = tg.overlap_join(left, right, on=("start", "end"), by="k", how=how)
        assert found.column_names == (names if how not in ("semi", "anti") else names[:4])
    full = tg.overlap_join(left, right, on=("start", "end"), by="k", how="full")
    assert full["k"].to_pylist() == ["a", "b", "c"]
    assert full["w"].to_pylist() == [1, None, 2]


def test_empty_tables():
    empty = intervals(1, 0, is_sorted=True)
    some = intervals(1, 5, is_sorted=True)
    for how, kept in [("inner", 0), ("left", 5), ("full", 5), ("anti", 5), ("semi", 0)]:
        assert tg.overlap_join(some, empty, on=("start", "end"), by="k", how=how).num_rows == kept
    assert tg.overlap_join(empty, some, on=("start", "end"), how="right").num_rows == 5
    counts = tg.overlap_join(some, empty, on=("start", "end"), aggs={"n": tg.agg.count()})
    assert counts["n"].to_pylist() == [0] * 5


def test_more_pairs_than_memory_are_handed_on():
    # 4 * 10^10 pairs.
    rows_ = pa.table({"start": np.arange(200_000), "end": np.full(200_000, 10**9)})
    with tg.overlap_join_batches(rows_, rows_, on=("start", "end")) as batches:
        first = next(iter(batches))
        assert first.column("start_right")[:3].to_pylist() == [0, 1, 2]
    counts = tg.overlap_join(rows_, rows_, on=("start", "end"), aggs={"n": tg.agg.count()})
    assert counts["n"].to_pylist() == [200_000] * 200_000


def test_more_candidates_than_a_page_has():
    # 9 million pairs.
    sides = [
        pa.table({"start": np.arange(3_000), "end": np.full(3_000, 10**6), name: np.arange(3_000)})
        for name in ("l", "r")
    ]
    found = tg.overlap_join(*sides, on=("start", "end"), how="full", columns=["l", "r"])
    assert np.array_equal(found["l"].to_numpy(), np.repeat(np.arange(3_000), 3_000))
    assert np.array_equal(found["r"].to_numpy(), np.tile(np.arange(3_000), 3_000))
    aggs = {"n": tg.agg.count(), "last": tg.agg.last("r"), "sum": tg.agg.sum("r")}
    sums = tg.overlap_join(*sides, on=("start", "end"), aggs=aggs, columns=["l"])
    last = {"l": 2_999, "n": 3_000, "last": 2_999, "sum": 4_498_500}
    assert sums.slice(2_999).to_pylist() == [last]
    assert sums["sum"].unique().to_pylist() == [4_498_500]


def test_a_limit_on_rows():
    rows_ = intervals(1, 2_000, is_sorted=True, keys=1)
    pairs = tg.overlap_join(rows_, rows_, on=("start", "end")).num_rows
    assert tg.overlap_join(rows_, rows_, on=("start", "end"), max_rows=pairs).num_rows == pairs
    message = f"at least {pairs} rows, more than max_rows = {pairs - 1}"
    for function in (tg.overlap_join, tg.overlap_join_batches):
        with pytest.raises(tg.MemoryLimitError, match=message):
            function(rows_, rows_, on=("start", "end"), max_rows=pairs - 1)


ROWS = pa.table({"start": [1, 7], "end": [2, 5], "ts": pa.array([0, 1], pa.timestamp("us"))})
GOOD = pa.table({"start": [1], "end": [2], "f": [1.5]})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            {"on": ("start", "end")},
            tg.TidegateError,
            (
                "left: row 1: column `start` is 2 steps after column `end`, expected a start at "
                "or before its end; swap the two, or filter such rows out first"
            ),
        ),
        (
            {"on": ("start", "stop")},
            tg.SchemaError,
            "left: there is no column `stop`, which `on` names; it has `start`, `end`, `ts`",
        ),
        (
            {"on": (("start", "ts"), ("start", "end"))},
            tg.SchemaError,
            "an integer and a time cannot be compared: left `start` is int64, left `ts` is",
        ),
        (
            {"on": (("start", "start"), ("f", "end"))},
            tg.SchemaError,
            "right: column `f` is double, expected a time",
        ),
        (
            {"on": "start"},
            TypeError,
            'on: expected a tuple with the names of the start and end columns, as in ("start"',
        ),
        (
            {"on": ("start", "start"), "closed": "right"},
            tg.TidegateError,
            "closed must be one of both, left, got `right`",
        ),
        (
            {"on": ("start", "start"), "min_overlap": -1},
            tg.TidegateError,
            "min_overlap must not be negative, got -1",
        ),
        (
            {"on": ("start", "start"), "min_overlap": "5s"},
            tg.SchemaError,
            "min_overlap is a duration, but the time columns are integers",
        ),
    ],
)
def test_bad_arguments_are_told(call, error, message):
    with pytest.raises(error) as raised:
        tg.overlap_join(ROWS, GOOD, **call)
    assert message in str(raised.value)


def test_a_length_without_a_unit_is_refused():
    with pytest.raises(tg.SchemaError) as raised:
        tg.overlap_join(ROWS, ROWS, on=("ts", "ts"), min_overlap=5)
    assert 'give min_overlap a unit, as in "5s" or,' in str(raised.value)


def test_the_plan_says_what_would_be_done():
    query = {"on": ("start", "end"), "by": [("start", "f")], "min_overlap": 3}
    right = pa.table({"start": [1], "end": [2], "f": [1]})
    lines = tg.explain(tg.overlap_join, ROWS, right, **query).splitlines()
    assert lines[:4] == [
        "overlap_join (inner)",
        "  overlap    left.start <= right.end and right.start <= left.end",
        "  common     at least 3 steps from the later start to the earlier end",
        "  key        start = f",
    ]
    counted = tg.explain(
        tg.overlap_join_batches, GOOD, GOOD, on=("start", "end"), aggs={"n": tg.agg.count()}
    )
    assert "two lookups per left row, regardless of the number of partners" in counted
    assert "per pair" not in counted
    query = {"on": ("start", "end"), "aggs": {"n": tg.agg.count()}}
    one_sided = tg.explain(tg.overlap_join, GOOD, GOOD, **query, where="right.f > 1")
    assert "two lookups per left row" in one_sided
    both_sides = tg.explain(tg.overlap_join, GOOD, GOOD, **query, where="left.f > right.f")
    assert "two lookups per left row" not in both_sides
