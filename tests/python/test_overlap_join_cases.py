"""Overlap joins in situations from the tests of other engines, rewritten with different rows.

The situations are those of `test/sql/join/iejoin` in DuckDB (https://github.com/duckdb/duckdb, MIT
License) and of `py-polars/tests/unit/operations/test_inequality_join.py` in Polars
(https://github.com/pola-rs/polars, MIT License). Inequalities that do not describe overlapping
intervals are omitted. Examples are inequalities of a single column, of columns other than a start
and an end, and of floats or strings.
"""

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg

Rows = list[tuple[Any, ...]]

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
DAY = dt.datetime(2025, 3, 1)  # noqa: DTZ001 - naive


def rows(table: pa.Table) -> Rows:
    """Return the rows of a result."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def by_range_join(query: str, **tables: pa.Table) -> Rows:
    """Run a query with DuckDB's IEJoin, which the settings enforce."""
    with duckdb.connect(config={"threads": 2}) as connection:
        for setting in (
            "merge_join_threshold = 0",
            "nested_loop_join_threshold = 0",
            "prefer_range_joins = true",
            # Otherwise, column statistics could show that there are no pairs.
            "disabled_optimizers = 'statistics_propagation'",
        ):
            connection.execute(f"set {setting}")
        for name, table in tables.items():
            connection.register("arrow_input", table)
            connection.execute(f"create table {name} as from arrow_input")
            connection.unregister("arrow_input")
        [(_, plan)] = connection.execute(f"explain {query}").fetchall()
        assert re.search("IE.JOIN", plan, re.IGNORECASE), plan
        return connection.execute(query).fetchall()


def days(*numbers: int | None) -> pa.Array:
    """Return days of March 2025."""
    first = DAY.date() - dt.timedelta(days=1)
    told = [None if n is None else first + dt.timedelta(days=n) for n in numbers]
    return pa.array(told, pa.date32())


def seconds(numbers: Sequence[int | None] | np.ndarray) -> pa.Array:
    """Return times that are some seconds after the start of March 1, 2025."""
    steps = pa.array(numbers, pa.int64())
    start = int((DAY - dt.datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001 - naive
    return pc.add(steps, start).cast(pa.timestamp("s")).cast(pa.timestamp("us"))


# DuckDB: pairs, and conditions on them


def test_more_conditions_that_few_pairs_meet():
    """After `test_iejoin.test`: all rows overlap, and two more columns must differ."""
    visits = pa.table(
        {
            "id": range(12),
            "came": range(0, 36, 3),
            "left": range(21, 57, 3),
            "door": [n % 2 for n in range(12)],
            "guide": [n % 4 // 2 for n in range(12)],
        }
    )
    found = tg.overlap_join(
        visits,
        visits,
        on=("came", "left"),
        closed="left",
        where="left.door <> right.door and left.guide <> right.guide",
        columns=["id", "id_right"],
    )
    # Doors differ after 1, 3, 5 and 7 rows, and guides after every other of these distances. When
    # the row seven later arrives, this one has left.
    distances = {0: (3,), 1: (1, 5), 2: (3,), 3: (1, 5)}
    later = [(n, n + step) for n in range(12) for step in distances[n % 4] if n + step < 12]
    assert rows(found) == sorted(later + [(b, a) for a, b in later])
    wanted = by_range_join(
        """
        select a.id, b.id from visits a, visits b where a.came < b."left" and b.came < a."left"
        and a.door <> b.door and a.guide <> b.guide order by all
        """,
        visits=visits,
    )
    assert rows(found) == wanted


def test_common_parts_are_joined_again():
    """After the recursive query of `test_iejoin.test`."""
    shifts = pa.table({"start": [0, 2, 9], "end": [6, 10, 12], "name": ["a", "b", "c"]})
    both = tg.overlap_join(shifts, shifts, on=("start", "end"), where="left.name < right.name")
    common = pa.table(
        {
            "start": pc.max_element_wise(both["start"], both["start_right"]),
            "end": pc.min_element_wise(both["end"], both["end_right"]),
            "names": pc.binary_join_element_wise(both["name"], both["name_right"], "+"),
        }
    )
    assert rows(common) == [(2, 6, "a+b"), (9, 10, "b+c")]
    different = "left.names <> right.names"
    again = tg.overlap_join(common, common, on=("start", "end"), where=different, how="anti")
    assert again.equals(common)


@pytest.mark.parametrize("how", HOWS)
def test_rows_that_a_condition_leaves_alone(how):
    """After `test_iejoin_predicate.test`: each row meets itself, and only small sums are kept."""
    steps = pa.table({"n": range(8), "start": seconds(range(8)), "end": seconds(range(1, 9))})
    found = tg.overlap_join(
        steps, steps, on=("start", "end"), closed="left", where="left.n + right.n < 7", how=how
    )
    # Rows 0 to 3 are kept, because twice 4 is more than 7.
    pairs, alone = [(n, n) for n in range(4)], range(4, 8)
    wanted = {
        "inner": pairs,
        "left": pairs + [(n, None) for n in alone],
        "right": pairs + [(None, n) for n in alone],
        "full": pairs + [(n, None) for n in alone] + [(None, n) for n in alone],
        "semi": [(n,) for n in range(4)],
        "anti": [(n,) for n in alone],
    }
    names = [name for name in ("n", "n_right") if name in found.column_names]
    assert rows(found.select(names)) == wanted[how]


def test_neighbours_of_equal_rest():
    """After the last query of `test_iejoin_predicate.test`: points, intervals and remainders."""
    doors = pa.table({"n": range(600), "low": range(-1, 599), "high": range(1, 601)})
    keys = pa.table({"m": range(600)})
    query = {"on": (("low", "high"), ("m", "m")), "columns": ["n", "m"]}
    rests = "(left.n % 3 = right.m % 3)"
    found = tg.overlap_join(doors, keys, **query, where=rests)
    assert rows(found) == [(n, n) for n in range(600)]
    # One step further, neighbours with all three remainders exist.
    assert tg.overlap_join(doors, keys, **query).num_rows == 3 * 600 - 2


def test_a_condition_on_the_length():
    """After `merge_join_switch.test`: a point's value is the length of its interval."""
    points = pa.table({"i": range(50)})
    spans = pa.table({"low": range(20), "high": range(2, 22)})
    on = (("i", "i"), ("low", "high"))
    found = tg.overlap_join(points, spans, on=on, where="left.i = right.high - right.low")
    assert rows(found) == [(2, 0, 2), (2, 1, 3), (2, 2, 4)]
    counted = tg.overlap_join(points, spans, on=on, aggs={"n": tg.agg.count()})
    assert counted["n"].to_pylist() == [1, 2, *[3] * 18, 2, 1, *[0] * 28]


def test_events_beside_others():
    """After `test_iejoin_events.test`: few events overlap, and one in ten is long."""
    random = np.random.default_rng(8675)
    starts = random.integers(0, 2_000, 900) * 86_400 + random.integers(0, 24, 900) * 3_600
    minutes = np.where(random.random(900) < 0.1, 120, random.integers(5, 56, 900))
    events = pa.table(
        {"id": range(900), "start": seconds(starts), "end": seconds(starts + minutes * 60)}
    )
    found = tg.overlap_join(
        events, events, on=("start", "end"), where="left.id <> right.id", columns=["id", "id_right"]
    )
    wanted = by_range_join(
        """
        select r.id, s.id from events r, events s
        where r.start <= s.end and r.end >= s.start and r.id <> s.id order by all
        """,
        events=events,
    )
    assert len(wanted) > 10
    assert rows(found) == wanted


def test_keys_and_columns_of_the_result():
    """After `iejoin_projection_maps.test`: two keys, and columns that only one step reads."""
    random = np.random.default_rng(309)
    count = 3_000
    table = pa.table(
        {
            "a": random.integers(1, 60, count),
            "value": random.random(count).round(3),
            "b": random.integers(1, 9, count),
            "from": random.integers(1, 7, count),
        }
    )
    table = table.append_column("to", pc.add(table["from"], 4))
    # The point is between the ends of the other row.
    on = (("from", "from"), ("first", "last"))
    inside = table.append_column("first", pc.add(table["from"], 1))
    inside = inside.append_column("last", pc.subtract(table["to"], 1))
    columns = ["b", "from", "from_right", "value", "value_right"]
    found = tg.overlap_join(table, inside, on=on, by=["a", "b"], columns=columns)
    wanted = by_range_join(
        """
        select l.b, l."from", r."from", l.value, r.value from rows_ l join rows_ r
        on l.a = r.a and l.b = r.b and l."from" > r."from" and l."from" < r."to"
        """,
        rows_=table,
    )
    assert len(wanted) > 3_000
    assert sorted(rows(found)) == sorted(wanted)
    narrow = tg.overlap_join(table, inside, on=on, by=["a", "b"], columns=["value_right"])
    assert narrow["value_right"].equals(found["value_right"])


# DuckDB: nulls, and empty intervals


NULLS = pa.table({"x": pa.array([None] * 4, pa.int32())})
HALF = pa.table({"x": pa.array([None, 5, None, 6], pa.int32())})
NONE = HALF.slice(0, 0)


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        (NONE, NONE, []),
        (NULLS, NULLS, []),
        (HALF, NULLS, []),
        (NULLS, HALF, []),
        (HALF, NONE, []),
        (HALF, HALF, [(1, 1), (3, 3)]),
    ],
)
def test_points_that_are_all_null(left, right, pairs):
    """After `iejoin_issue_6861.test`: a point is also an interval, but null is not."""
    left, right = (
        side.append_column(name, pa.array(range(len(side))))
        for side, name in ((left, "l"), (right, "r"))
    )
    alone = [(row, None) for row in range(len(left)) if row not in {a for a, _ in pairs}]
    others = [(None, row) for row in range(len(right)) if row not in {b for _, b in pairs}]
    wanted = {
        "inner": pairs,
        "left": sorted(pairs + alone),
        "right": pairs + others,
        "full": sorted(pairs + alone) + others,
        "semi": [(row, None) for row, _ in pairs],
        "anti": alone,
    }
    for how in HOWS:
        found = tg.overlap_join(left, right, on=("x", "x"), how=how)
        numbers = found["r"] if "r" in found.column_names else pa.nulls(found.num_rows)
        assert list(zip(found["l"].to_pylist(), numbers.to_pylist(), strict=True)) == wanted[how]
    counts = tg.overlap_join(left, right, on=("x", "x"), aggs={"n": tg.agg.count()})
    assert counts["n"].to_pylist() == [
        len({pair for pair in pairs if pair[0] == row}) for row in range(len(left))
    ]


def test_rows_without_one_of_their_ends():
    """After `test_iejoin_null_keys.test`: null in either column, which the result contains."""
    table = pa.table(
        {"start": [None, 1, 2, None, 4], "end": [3, None, 9, None, 5], "z": [0, 1, 2, 3, 4]}
    )
    on = ("start", "end")
    left = tg.overlap_join(table, table, on=on, how="left", where="left.z <> right.z")
    assert rows(left) == [
        (None, 3, 0, None, None, None),
        (1, None, 1, None, None, None),
        (2, 9, 2, 4, 5, 4),
        (None, None, 3, None, None, None),
        (4, 5, 4, 2, 9, 2),
    ]
    full = tg.overlap_join(table, table, on=on, how="full", where="left.z < right.z")
    assert rows(full.select(["z", "z_right"])) == [
        (0, None), (1, None), (2, 4), (3, None), (4, None),
        (None, 0), (None, 1), (None, 2), (None, 3),
    ]  # fmt: skip
    starts = pa.table({"start": pa.array([None] * 6, pa.int64()), "end": [7] * 6})
    alone = tg.overlap_join(starts, table, on=on, how="left", columns=["start", "end", "z"])
    assert rows(alone) == [(None, 7, None)] * 6


def test_ends_that_are_not_known_yet():
    """After `predicate_expressions.test`: the caller sets the end of a row that has none."""
    months = pa.table(
        {"month": pa.array([dt.date(2024 + n // 12, n % 12 + 1, 1) for n in range(20)])}
    )
    ends = [dt.date(2024, n + 4, 20) if n < 7 else None for n in range(12)]
    versions = pa.table(
        {
            "start": months["month"].take(pa.array(np.repeat(range(12), 70))),
            "end": pa.array(ends, pa.date32()).take(pa.array(np.repeat(range(12), 70))),
        }
    )
    query = {"on": (("month", "month"), ("start", "end")), "aggs": {"n": tg.agg.count()}}
    known = tg.overlap_join(months, versions, **query)
    # The month's own versions, and those of the three months before it.
    wanted = [70 * n for n in (1, 2, 3, 4, 4, 4, 4, 3, 2, 1, *[0] * 10)]
    assert known["n"].to_pylist() == wanted
    last = pa.scalar(dt.date(2099, 1, 1))
    filled = versions.set_column(1, "end", versions["end"].fill_null(last))
    found = tg.overlap_join(months, filled, **query)
    unended = [70 * min(max(n - 6, 0), 5) for n in range(20)]
    assert found["n"].to_pylist() == [a + b for a, b in zip(wanted, unended, strict=True)]
    counted = by_range_join(
        """
        select month, count(*) from versions join months
        on month between start and ifnull("end", '2099-01-01') group by month order by month
        """,
        months=months,
        versions=versions,
    )
    assert rows(found) == counted


# DuckDB: matched and unmatched rows


LENT = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "start": days(1, 3, 6, 8, None, 9),
        "stop": days(3, 4, 8, None, 9, 9),
        "tool": ["saw", "saw", "axe", "axe", "axe", "saw"],
        "price": [10.0, 12.5, 30.0, 31.0, 32.0, 14.0],
    }
)
ASKED = pa.table(
    {
        "start": days(2, 4, 7),
        "stop": days(4, 6, 11),
        "tool": ["saw", "axe", "saw"],
        "is_urgent": [True, False, True],
        "bid": pa.array([9, 25, 40], pa.int32()),
    }
)


@pytest.mark.parametrize(
    ("query", "has"),
    [
        ({}, [1, 2, 3]),
        ({"by": "tool"}, [1, 2]),
        ({"where": "left.price + right.bid > 20"}, [2, 3]),
        ({"by": "tool", "where": "left.price + right.bid > 20"}, [2]),
        ({"closed": "both"}, [1, 2, 3, 6]),
        ({"closed": "both", "where": "right.is_urgent"}, [1, 2, 3, 6]),
        ({"closed": "both", "where": "not right.is_urgent"}, [2, 3]),
        ({"closed": "both", "min_overlap": dt.timedelta(days=1)}, [1, 2, 3]),
    ],
)
def test_rows_that_have_a_pair_and_rows_that_have_none(query, has):
    """After `test_iesemijoin.test` and `test_ieantijoin.test`: also by key or condition."""
    query = {"on": ("start", "stop"), "closed": "left"} | query
    for how, ids in (("semi", has), ("anti", [id_ for id_ in range(1, 7) if id_ not in has])):
        found = tg.overlap_join(LENT, ASKED, **query, how=how)
        assert found.equals(LENT.filter(pc.is_in(LENT["id"], pa.array(ids))))


NARROW = 10_000


def wide_and_narrow() -> tuple[pa.Table, pa.Table]:
    """Create a few wide rows, two without an end, and many narrow ones after the third."""
    cuts = [n * NARROW // 7 for n in range(10)]
    starts, stops = [*cuts[:7], None, cuts[8]], [*cuts[1:9], None]
    wide = {
        "id": range(9),
        "start": seconds(starts),
        "stop": seconds(stops),
        "tag": [*"ABCD?FGHI"],
        "price": [100.0 + 20 * n for n in range(9)],
    }
    first = cuts[3]
    narrow = {
        "start": seconds(np.arange(first, first + NARROW)),
        "stop": seconds(np.arange(first + 1, first + 1 + NARROW)),
        "tag": [chr(65 + n % 26) for n in range(NARROW)],
        "bid": [50.0 + n / 100 for n in range(NARROW)],
    }
    return pa.table(wide), pa.table(narrow)


@pytest.mark.parametrize(
    ("query", "sql", "without"),
    [
        ({}, "true", [0, 1, 2, 7, 8]),
        ({"by": "tag"}, "l.tag = r.tag", [0, 1, 2, 4, 7, 8]),
        ({"where": "left.price + right.bid < 280"}, "l.price + r.bid < 280", [0, 1, 2, 6, 7, 8]),
        (
            {"by": "tag", "where": "left.price + right.bid < 245"},
            "l.tag = r.tag and l.price + r.bid < 245",
            [0, 1, 2, 4, 5, 6, 7, 8],
        ),
    ],
)
def test_wide_rows_among_many_narrow_ones(query, sql, without):
    """After the second parts of `test_iesemijoin.test` and `test_ieantijoin.test`."""
    wide, narrow = wide_and_narrow()
    met = by_range_join(
        f"""
        select distinct l.id from l join r
        on l.start < r.stop and r.start < l.stop and {sql} order by l.id
        """,  # noqa: S608 - our names
        l=wide,
        r=narrow,
    )
    assert [id_ for id_ in range(9) if (id_,) not in met] == without
    for how in ("semi", "anti"):
        found = tg.overlap_join(
            wide, narrow, on=("start", "stop"), closed="left", **query, how=how, threads=2
        )
        kept = pc.is_in(wide["id"], pa.array(without))
        assert found.equals(wide.filter(kept if how == "anti" else pc.invert(kept)))


def test_columns_of_other_types_at_the_same_places():
    """After `iejoin_semi_anti_residual_payload.test`: only the condition reads third columns."""
    left = pa.table({"start": range(8), "stop": range(20, 28), "price": [2.5] * 8})
    firsts = pa.array(range(90), pa.int32())
    right = pa.table({"start": firsts, "stop": pc.add(firsts, 1), "bid": range(100, 190)})
    query = {"on": ("start", "stop"), "closed": "left", "columns": ["start"]}
    for limit, has in ((1_000, 8), (105, 3), (102, 0)):
        where = f"left.price + right.bid < {limit}"
        for how, wanted in (("semi", range(has)), ("anti", range(has, 8))):
            found = tg.overlap_join(left, right, **query, where=where, how=how)
            assert found["start"].to_pylist() == [*wanted]


# DuckDB: many rows


def test_blocks_that_do_not_meet():
    """After `test_iejoin_overlaps.test`: both sides alternate, or one of them is first."""
    starts = np.arange(0, 50_000, 10)
    first = pa.table({"start": starts, "end": starts + 3})
    for right in (
        pa.table({"start": starts + 4, "end": starts + 9}),
        pa.table({"start": starts + 60_000, "end": starts + 60_002}),
    ):
        for left, other in ((first, right), (right, first)):
            assert tg.overlap_join(left, other, on=("start", "end")).num_rows == 0
    touching = pa.table({"start": starts + 3, "end": starts + 9})
    assert tg.overlap_join(first, touching, on=("start", "end"), closed="left").num_rows == 0
    assert tg.overlap_join(first, touching, on=("start", "end")).num_rows == len(starts)


def test_states_that_follow_each_other():
    """After `test_countzeros.test`: each state ends where the next one of its key begins."""
    count = 70_000
    states = pa.table(
        {
            "k": np.arange(count) // 64,
            "start": seconds(np.arange(count)),
            "end": seconds(np.arange(1, count + 1)),
        }
    )
    found = tg.overlap_join(states, states, on=("start", "end"), by="k", closed="left", threads=2)
    assert found.select(["k", "start", "end"]).equals(states)
    assert found["start_right"].equals(states["start"])
    # If ends are included, a state also meets the states before and after it with the same key.
    closed = tg.overlap_join(
        states, states, on=("start", "end"), by="k", aggs={"n": tg.agg.count()}, columns=["k"]
    )
    is_edge = np.isin(np.arange(count) % 64, (0, 63))
    is_edge[-1] = True
    assert np.array_equal(closed["n"].to_numpy(), np.where(is_edge, 2, 3))


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_with_one_pair(threads):
    """After `test_iejoin_sort_tasks.test_slow`: a last row meets the first of the other side."""
    count = 300_000
    sides = [
        pa.table({"start": np.arange(count) + first, "end": np.arange(count) + first + 1})
        for first in (5, count + 4)
    ]
    found = tg.overlap_join(*sides, on=("start", "end"), closed="left", threads=threads)
    assert rows(found) == [(count + 4, count + 5, count + 4, count + 5)]
    anti = tg.overlap_join(*sides, on=("start", "end"), closed="left", how="anti", threads=threads)
    assert anti.equals(sides[0].slice(0, count - 1))
    full = tg.overlap_join(*sides, on=("start", "end"), closed="left", how="full", threads=threads)
    assert full["start"].equals(
        pa.chunked_array([sides[0]["start"].combine_chunks(), pa.nulls(count - 1, pa.int64())])
    )
    assert full["start_right"].drop_null().equals(sides[1]["start"])
    assert full["start_right"].null_count == count - 1


def test_readings_in_flagged_times():
    """After `iejoin_issue_6314.test_slow`: a reading every quarter of an hour, and few flags.

    Flags last from a moment to weeks, and start at a reading or between two readings.
    """
    random = np.random.default_rng(6314)
    quarter = 900 * 10**6
    readings = pa.table(
        {
            "ts": pa.array(np.arange(20_000) * quarter).cast(pa.timestamp("us")),
            "value": np.arange(20_000) * 7 % 100,
        }
    )
    starts = np.sort(random.integers(0, 20_000 * quarter, 150))
    starts[::10] -= starts[::10] % quarter
    lengths = np.where(np.arange(150) % 3 == 0, 0, random.pareto(0.6, 150) * 10**8).astype(np.int64)
    flags = pa.table(
        {
            "start": pa.array(starts).cast(pa.timestamp("us")),
            "end": pa.array(starts + np.minimum(lengths, 10**12)).cast(pa.timestamp("us")),
            "flag": [f"2/{n % 2 * 11}" for n in range(150)],
        }
    )
    on = (("ts", "ts"), ("start", "end"))
    query = 'from readings {how} join flags on ts between start and "end" order by all nulls last'
    for how in ("inner", "left"):
        found = tg.overlap_join(readings, flags, on=on, how=how)
        wanted = by_range_join(query.format(how=how), readings=readings, flags=flags)
        assert rows(found) == wanted
    assert None in found["flag"].to_pylist()
    # A flag without length has a reading if it starts at one.
    moments = flags.filter(pc.equal(flags["start"], flags["end"]))
    hits = tg.overlap_join(moments, readings, on=(("start", "end"), ("ts", "ts")))
    assert 0 < hits.num_rows < moments.num_rows


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_intervals_that_are_there_several_times(copies):
    """After `iejoin_issue_7278.test`: equal moments, and shifts that end where the next begins."""
    shift = 43_200
    starts = np.arange(0, 300) * shift
    shifts = pa.table({"start": seconds(starts), "end": seconds(starts + shift)})
    shifts = pa.concat_tables([shifts] * copies)
    for at, met in ((shift * 100 + 7_200, 1), (shift * 100, 2)):
        readings = pa.table({"ts": seconds([at] * 500), "value": [1] * 500})
        query = {"on": (("ts", "ts"), ("start", "end"))}
        found = tg.overlap_join(readings, shifts, **query)
        assert found.num_rows == 500 * met * copies
        names = {"start": "start2", "end": "end2"}
        again = tg.overlap_join(
            found, shifts.rename_columns(names), on=(("ts", "ts"), ("start2", "end2"))
        )
        assert again.num_rows == 500 * (met * copies) ** 2
        counts = tg.overlap_join(readings, shifts, **query, aggs={"n": tg.agg.count()})
        assert counts["n"].unique().to_pylist() == [met * copies]


# Polars


def frames() -> tuple[pa.Table, pa.Table]:
    """Create calls, and lines that are open between two times, each in a group."""
    minutes = [5, 60, 65, 130, 180, 240]
    calls = pa.table(
        {"id": range(6), "group": [0, 0, 0, 1, 1, 1], "ts": seconds([60 * n for n in minutes])}
    )
    lines = pa.table(
        {
            "id": [0, 1, 2],
            "group": [0, 1, 1],
            "from": seconds([0, 60 * 60, 60 * 180]),
            "to": seconds([60 * 65, 60 * 180, 60 * 240]),
        }
    )
    return calls, lines


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, [(0, 0), (1, 0), (1, 1), (2, 1), (3, 1), (4, 2)]),
        ({"by": "group"}, [(0, 0), (1, 0), (3, 1), (4, 2)]),
        ({"where": "left.group <> right.group"}, [(1, 1), (2, 1)]),
    ],
)
def test_points_before_an_end(query, wanted):
    """After `test_join_where_predicates`: an interval contains its start, but not its end."""
    calls, lines = frames()
    last = pc.subtract(lines["to"], pa.scalar(1, pa.duration("us")))
    lines = lines.set_column(3, "to", last)
    names = ["id", "id_right"]
    found = tg.overlap_join(calls, lines, on=(("ts", "ts"), ("from", "to")), **query, columns=names)
    assert rows(found) == wanted
    conditions = [pl.col("ts").is_between("from", "to")]
    if "by" in query:
        conditions.append(pl.col("group") == pl.col("group_right"))
    if "where" in query:
        conditions.append(pl.col("group") != pl.col("group_right"))
    theirs = pl.DataFrame(calls).join_where(pl.DataFrame(lines), *conditions)
    assert theirs.select(names).sort(names).rows() == wanted


def test_a_point_that_is_both_ends():
    """After `test_ie_join_use_keys_multiple`: equal means neither less nor greater."""
    left = pa.table({"a": [1, 2, 3], "x": [7, 2, 1]})
    right = pa.table({"b": [2, 2, 2], "x": [7, 1, 3]})
    found = tg.overlap_join(left, right, on=(("a", "a"), ("b", "b")))
    assert rows(found) == [(2, 2, 2, 7), (2, 2, 2, 1), (2, 2, 2, 3)]


def test_no_pair_has_the_columns_of_pairs():
    """After `test_ie_join_projection_pd_19005`: an empty result that is aggregated."""
    table = pa.table({"start": [1, 2], "end": [3, 4], "at": pa.array([0, 1], pa.uint32())})
    found = tg.overlap_join(
        table, table, on=("start", "end"), where="left.at < right.at and left.at + left.start > 1"
    )
    some = tg.overlap_join(table, table, on=("start", "end"))
    assert (found.num_rows, found.schema) == (0, some.schema)
    grouped = found.group_by("at").aggregate([("at_right", "list")])
    assert grouped.num_rows == 0
    assert grouped.schema.field("at_right_list").type == pa.list_(pa.uint32())


def test_a_condition_on_one_side():
    """After `test_single_sided_predicate` and `test_join_where_literal_20061`."""
    left = pa.table({"start": [0, 1, 2], "end": [9, 9, 9], "a": [1, -1, 2]})
    right = pa.table({"start": [3, 4, 5], "end": [5, 5, 5], "flag": [1, 0, None]})
    names = ["a", "start_right"]
    found = tg.overlap_join(
        left, right, on=("start", "end"), where="left.start >= left.a", columns=names
    )
    assert rows(found) == [(-1, 3), (-1, 4), (-1, 5), (2, 3), (2, 4), (2, 5)]
    found = tg.overlap_join(left, right, on=("start", "end"), where="right.flag = 1", columns=names)
    assert rows(found) == [(1, 3), (-1, 3), (2, 3)]
    full = tg.overlap_join(
        left,
        right,
        on=("start", "end"),
        where="right.flag = 0 and left.a > 0",
        how="full",
        columns=names,
    )
    assert rows(full) == [(1, 4), (-1, None), (2, 4), (None, 3), (None, 5)]


def test_names_that_both_sides_have():
    """After `test_join_partial_column_name_overlap_19119`: only these columns get a suffix."""
    left = pa.table({"a": [1], "b": [2], "c": ["x"]})
    right = pa.table({"a": [2], "d": [3], "e": ["y"]})
    found = tg.overlap_join(left, right, on=(("a", "b"), ("a", "d")))
    assert found.to_pylist() == [{"a": 1, "b": 2, "c": "x", "a_right": 2, "d": 3, "e": "y"}]
    other = tg.overlap_join(left, right, on=(("a", "b"), ("a", "d")), suffix="2")
    assert other.column_names == ["a", "b", "c", "a2", "d", "e"]


def test_a_third_inequality():
    """After `test_join_predicate_pushdown_19580`."""
    left = pa.table({"a": [1, 2, 3, 1], "b": [1, 2, 3, 4], "c": [2, 3, 4, 5]})
    right = pa.table({"a": [1, 3, 2], "c": [2, 4, 2], "d": [6, 3, 1]})
    on = (("b", "c"), ("a", "c"))
    found = tg.overlap_join(left, right, on=on, where="left.a < right.d")
    col = pl.col
    conditions = col("b") <= col("c_right"), col("a_right") <= col("c"), col("a") < col("d")
    theirs = pl.DataFrame(left).join_where(pl.DataFrame(right), *conditions)
    assert sorted(rows(found)) == sorted(theirs.select(found.column_names).rows())
    assert rows(found.select(["b", "a_right"])) == [(1, 1), (2, 1), (2, 3), (4, 3)]


@pytest.mark.parametrize("batch_rows", [1, 2, 5, 100])
def test_some_rows_of_the_result(batch_rows):
    """After `test_ie_join_with_slice`: rows in the middle do not depend on how they are read."""
    left = pa.table({"start": [0, 10, 20, 30], "end": [25, 12, 60, 30], "l": range(4)})
    right = pa.table({"start": [5, 11, 12, 30, 61], "end": [5, 40, 30, 31, 99], "r": range(5)})
    whole = tg.overlap_join(left, right, on=("start", "end"), how="full", columns=["l", "r"])
    assert rows(whole) == [
        (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3),
        (None, 4),
    ]  # fmt: skip
    for taken in range(len(whole)):
        reader = tg.overlap_join_batches(
            left, right, on=("start", "end"), how="full", columns=["l", "r"], batch_rows=batch_rows
        )
        with reader:
            found: list[tuple] = []
            while len(found) < taken:
                found += rows(pa.Table.from_batches([next(reader)]))
        assert found[:taken] == rows(whole)[:taken]
        for offset in range(taken):
            assert rows(whole.slice(offset, taken - offset)) == found[offset:taken]


@st.composite
def numbered(draw: st.DrawFn, start: str, end: str, number: str) -> pa.Table:
    """Draw rows with an interval, either end of which may be missing."""
    count = draw(st.integers(0, 20))
    starts = draw(st.lists(st.integers(100, 112) | st.none(), min_size=count, max_size=count))
    lengths = draw(st.lists(st.integers(0, 6) | st.none(), min_size=count, max_size=count))
    ends = [
        103 if a is None and more is not None else None if more is None else a + more
        for a, more in zip(starts, lengths, strict=True)
    ]
    return pa.table(
        {
            start: pa.array(starts, pa.int64()),
            end: pa.array(ends, pa.int64()),
            number: pa.array(range(count), pa.int64()),
        }
    )


@given(numbered("start", "end", "l"), numbered("lo", "hi", "r"), st.booleans())
def test_random_intervals_with_nulls(left, right, is_closed):
    """After `test_ie_join` and `test_ie_join_with_nulls`: the ends are included or not."""
    col, a, b = pl.col, pl.DataFrame(left), pl.DataFrame(right)
    if is_closed:
        conditions = [col("start") <= col("hi"), col("lo") <= col("end")]
    else:
        a, b = a.filter(~(col("start") == col("end"))), b.filter(~(col("lo") == col("hi")))
        conditions = [col("start") < col("hi"), col("lo") < col("end")]
    wanted = a.join_where(b, *conditions).select("l", "r").sort("l", "r")
    query: dict[str, Any] = {"on": (("start", "end"), ("lo", "hi")), "columns": ["l", "r"]}
    found = tg.overlap_join(left, right, **query, closed="both" if is_closed else "left")
    assert rows(found) == wanted.rows()


@given(
    st.lists(st.integers(-(2**15), 2**15 - 1) | st.integers(-5, 20), max_size=20),
    st.lists(st.tuples(st.integers(-5, 20), st.integers(-3, 12)), max_size=20),
    st.sampled_from([">", ">="]),
    st.sampled_from(["<", "<="]),
)
def test_random_points_in_ranges(points, spans, lower, upper):
    """After `test_ie_join_streaming_range`: ends are included or not, and some are reversed."""
    left = pl.DataFrame(
        {"point": points, "l": range(len(points))}, {"point": pl.Int32, "l": pl.Int64}
    )
    right = pl.DataFrame(
        {
            "lo": [lo for lo, _ in spans],
            "hi": [lo + more for lo, more in spans],
            "r": range(len(spans)),
        },
        {"lo": pl.Int32, "hi": pl.Int32, "r": pl.Int64},
    )
    conditions = [pl.sql_expr(f"point {lower} lo"), pl.sql_expr(f"point {upper} hi")]
    wanted = left.join_where(right, *conditions).select("l", "r").sort("l", "r")
    first, last = pl.col("lo") + (lower == ">"), pl.col("hi") - (upper == "<")
    # A range that ends before it starts contains no point, and is an error here.
    ranges = right.with_columns(lo=first, hi=last).filter(pl.col("lo") <= pl.col("hi"))
    on = (("point", "point"), ("lo", "hi"))
    found = tg.overlap_join(left, ranges, on=on, columns=["l", "r"])
    assert rows(found) == wanted.rows()
