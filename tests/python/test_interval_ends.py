"""Interval joins whose ends are computed from columns, compared with a nested loop and DuckDB."""

import datetime as dt
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import campaign
import oracle
import tidegate as tg

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
CLOSED = ["both", "left", "right", "neither"]
UNITS = ["s", "ms", "us", "ns"]

End = Callable[[dict, dict], int | None] | None
Pairs = list[tuple[int | None, int | None]]


def nested_loop(
    left: pa.Table, right: pa.Table, how: str, pair: Callable[[dict, dict], bool]
) -> Pairs:
    """Return the row numbers of the result in order, with None for a side without a row."""
    lefts, rights = ticked(left), ticked(right)
    matched = [[j for j, b in enumerate(rights) if pair(a, b)] for a in lefts]
    return oracle.listed(matched, how, len(rights))


def ticked(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows, with times and distances in nanoseconds, or in steps for integers."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name in ("ts", "until", "near") and not pa.types.is_integer(column.type):
            step = nanoseconds(column.type)
            storage = pa.int32() if column.type == pa.date32() else pa.int64()
            values = column.cast(storage).to_pylist()
            columns[name] = [None if value is None else value * step for value in values]
        else:
            columns[name] = column.to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def rows(table: pa.Table) -> Pairs:
    """Return the row numbers in a result."""
    right = table["r"].to_pylist() if "r" in table.column_names else [None] * table.num_rows
    return list(zip(table["l"].to_pylist(), right, strict=True))


EXPRESSIONS: dict[str, Callable[[dict, dict], int | None]] = {
    "left.near": lambda a, _b: a["near"],
    "-left.near": lambda a, _b: None if a["near"] is None else -a["near"],
    "left.until": lambda a, _b: None if a["until"] is None else a["until"] - a["ts"],
    "right.near": lambda _a, b: b["near"],
    "-right.near": lambda _a, b: None if b["near"] is None else -b["near"],
}


@dataclass(frozen=True)
class Types:
    """The types of the columns of both tables, and the length of a step of time."""

    time: pa.DataType
    near: pa.DataType
    until: pa.DataType

    @property
    def is_integer(self) -> bool:
        return pa.types.is_integer(self.time)

    @property
    def step(self) -> int:
        return oracle.step(self.time)


@st.composite
def types(draw: st.DrawFn) -> Types:
    time = draw(st.sampled_from([pa.int64(), pa.int32(), pa.timestamp("s"), pa.timestamp("us")]))
    if draw(st.integers(0, 5)) == 0:
        time = draw(st.sampled_from([pa.date32(), pa.timestamp("ms", "Europe/Berlin")]))
    if pa.types.is_integer(time):
        near = draw(st.sampled_from([pa.int64(), pa.int8(), pa.uint64(), pa.uint16()]))
        return Types(time, near, pa.int64())
    zone = getattr(time, "tz", None)
    until = draw(st.sampled_from([time, pa.timestamp("ns", zone), pa.timestamp("s", zone)]))
    return Types(time, pa.duration(draw(st.sampled_from(UNITS))), until)


def nanoseconds(type_: pa.DataType) -> int:
    """Return the length of a step of a time or a duration, or 1 for integers."""
    unit = getattr(type_, "unit", None)
    return oracle.NANOSECONDS[unit] if unit in UNITS else oracle.step(type_)


def typed(steps: list[int | None], halves: list[int], of: Types, type_: pa.DataType) -> pa.Array:
    """Convert steps of time, plus halves of a step, to another unit."""
    if pa.types.is_integer(type_):
        return pa.array(steps, type_)
    found = [
        None if value is None else (value * of.step + half * (of.step // 2)) // nanoseconds(type_)
        for value, half in zip(steps, halves, strict=True)
    ]
    return pa.array(found, pa.int32() if type_ == pa.date32() else pa.int64()).cast(type_)


@st.composite
def tables(draw: st.DrawFn, of: Types, name: str) -> pa.Table:
    """Draw a table whose rows are numbered in the column with this name."""
    times = st.integers(0, 30)
    if of.time == pa.int64():
        times = st.one_of(times, times, times, st.sampled_from([-(2**63), 2**63 - 1, 2**62]))
    starts = draw(st.lists(times, max_size=25))
    if draw(st.booleans()):
        starts.sort()
    count = len(starts)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    least = 0 if of.near in (pa.uint64(), pa.uint16()) else -3
    near = st.one_of(st.integers(least, 4), st.integers(0, 4), st.integers(30, 60), st.none())
    until = st.one_of(st.integers(-2, 35), st.none())
    halves = column(st.integers(0, 2))
    table = pa.table(
        {
            "ts": typed(starts, [0] * count, of, of.time),
            "near": typed(column(near), halves, of, of.near),
            "until": typed(column(until), halves, of, of.until),
            name: pa.array(range(count), pa.int64()),
            "k": pa.array(column(st.sampled_from(["a", "b", None])), pa.string()),
        }
    )
    return pa.Table.from_batches(table.to_batches(draw(st.integers(1, 40))), table.schema)


@st.composite
def joins(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, dict[str, Any], Callable[..., bool]]:
    """Draw two tables, the arguments of their ends, and a function that tests a pair."""
    of = draw(types())
    names = ["left.near", "right.near"]
    if of.near not in (pa.uint64(), pa.uint16()):
        names += ["-left.near", "-right.near"]
    if not of.is_integer:
        names.append("left.until")
    ends = [
        draw(st.sampled_from(names)),
        draw(st.one_of(st.sampled_from(names), st.none(), st.integers(-5, 5))),
    ]
    if draw(st.booleans()):
        ends.reverse()
    closed = draw(st.sampled_from(CLOSED))
    arguments = {
        name: f"{end * of.step}ns" if isinstance(end, int) and not of.is_integer else end
        for name, end in zip(("lower", "upper"), ends, strict=True)
    }
    lower, upper = (
        (lambda _a, _b, value=end: value * of.step)
        if isinstance(end, int)
        else EXPRESSIONS.get(end or "")
        for end in ends
    )

    def within(a: dict, b: dict) -> bool:
        distance = b["ts"] - a["ts"]
        return is_after(distance, lower, (a, b), is_in=closed in ("both", "left")) and is_after(
            -distance,
            upper and (lambda a, b: None if (end := upper(a, b)) is None else -end),
            (a, b),
            is_in=closed in ("both", "right"),
        )

    return draw(tables(of, "l")), draw(tables(of, "r")), arguments | {"closed": closed}, within


def is_after(distance: int, end: End, pair: tuple[dict, dict], *, is_in: bool) -> bool:
    """Return whether a distance is after a lower end."""
    if end is None:
        return True
    least = end(*pair)
    return least is not None and (distance > least or (is_in and distance == least))


WHERE: dict[str | None, Callable[[int, int], bool]] = {
    None: lambda _a, _b: True,
    "(left.l + right.r) % 3 > 0": lambda a, b: (a + b) % 3 > 0,
    "left.l > 5": lambda a, _b: a > 5,
    "right.r < 9": lambda _a, b: b < 9,
}


@given(
    joins(),
    st.sampled_from(HOWS),
    st.sampled_from([None, "k"]),
    st.sampled_from(list(WHERE)),
    st.integers(1, 5),
)
def test_oracle_random_tables(drawn, how, by, where, threads) -> None:
    left, right, ends, within = drawn

    def pair(a: dict, b: dict) -> bool:
        equal = by is None or (a["k"] is not None and a["k"] == b["k"])
        return equal and within(a, b) and WHERE[where](a["l"], b["r"])

    wanted = nested_loop(left, right, how, pair)
    query = {"on": "ts", "by": by, "where": where} | ends
    found = tg.interval_join(left, right, **query, how=how, threads=threads)
    assert rows(found) == wanted
    with tg.interval_join_batches(
        left, right, **query, how=how, threads=threads, batch_rows=7
    ) as batches:
        assert pa.Table.from_batches(batches, found.schema).equals(found)


@given(joins(), st.sampled_from(["left", "inner"]), st.sampled_from([None, "left.l < 9"]))
def test_aggregates_are_those_of_the_pairs(drawn, how, where) -> None:
    left, right, ends, _ = drawn
    functions = {"n": tg.agg.count(), "sum": tg.agg.sum("r"), "first": tg.agg.first("r")}
    query = {"on": "ts", "by": "k", "where": where} | ends
    times = [row["ts"] for row in ticked(right)]
    of: dict[int, list[int]] = {row: [] for row in range(left.num_rows)}
    for row, partner in rows(tg.interval_join(left, right, **query)):
        of[row].append(partner)
    for names in (list(functions), ["n"]):
        aggs = {name: functions[name] for name in names}
        found = tg.interval_join(left, right, **query, how=how, aggs=aggs, columns=["l"])
        kept = [row for row, partners in of.items() if partners or how == "left"]
        assert found["l"].to_pylist() == kept
        assert found["n"].to_pylist() == [len(of[row]) for row in kept]
        if "sum" in names:
            partners = [sorted(of[row], key=lambda r: (times[r], r)) for row in kept]
            assert found["sum"].to_pylist() == [sum(r) if r else None for r in partners]
            assert found["first"].to_pylist() == [r[0] if r else None for r in partners]


# Streams


@given(
    joins(),
    st.sampled_from(HOWS),
    st.sampled_from([None, "k"]),
    st.sampled_from(list(WHERE)),
    st.sampled_from(["auto", "key", "data", "hybrid", "scale-oij"]),
    st.integers(1, 3),
    st.integers(0, 10**9),
)
def test_rows_that_come_pair_as_tables_do(
    drawn, how, by, where, parallelism, threads, seed
) -> None:
    left, right, ends, _ = drawn
    left, right = (table.sort_by("ts") for table in (left, right))
    is_integer = pa.types.is_integer(left.schema.field("ts").type)
    most = 8 if is_integer else 8 * oracle.step(left.schema.field("ts").type)
    query = {"on": "ts", "by": by, "where": where, "how": how} | ends
    used = [
        table.filter(pa.array([not is_wide(row) for row in ticked(table)], pa.bool_()))
        for table, is_wide in zip((left, right), wide(ends, most), strict=True)
    ]
    wanted = tg.interval_join(*used, **query)
    in_orders = []
    for draw in (random.Random(seed), random.Random(seed + 1)):  # noqa: S311 - for tests
        join = tg.IntervalJoin(
            left.schema,
            right.schema,
            **query,
            max_width=most if is_integer else f"{most}ns",
            parallelism=parallelism,
            threads=threads,
            pin=False,
        )
        found = fed(join, [left, right], draw)
        in_orders.append(found)
        assert sorted(rows(found), key=repr) == sorted(rows(wanted), key=repr)
        late = join.late()
        assert set(late["late_reason"].to_pylist()) <= {"wide"}
        assert late["late_watermark"].null_count == len(late)
        for side, name, table, kept in zip(
            "lr", ("left", "right"), (left, right), used, strict=True
        ):
            aside = [row[side] for row in late.to_pylist() if row["late_side"] == name]
            assert sorted(aside + kept[side].to_pylist()) == sorted(table[side].to_pylist())
    assert in_orders[0].equals(in_orders[1])


def wide(ends: dict[str, Any], most: int) -> list[Callable[[dict], bool]]:
    """Return, for each side, a function that tests whether an end of a row is too far away."""

    def is_wide(side: str, row: dict) -> bool:
        for end in (ends["lower"], ends["upper"]):
            if isinstance(end, str) and f"{side}." in end:
                distance = EXPRESSIONS[end](row, row)
                if distance is not None and abs(distance) > most:
                    return True
        return False

    return [lambda row: is_wide("left", row), lambda row: is_wide("right", row)]


def fed(join: Any, tables: list[pa.Table], draw: random.Random) -> pa.Table:
    """Return the results of pushing random pieces, with polls in between."""
    rest = [table.slice(0) for table in tables]
    found = []
    while any(table.num_rows for table in rest):
        side = draw.choice([side for side in (0, 1) if rest[side].num_rows])
        count = draw.randint(1, 9)
        join.sources[side].push(rest[side].slice(0, count))
        rest[side] = rest[side].slice(count)
        if not rest[side].num_rows:
            join.sources[side].close()
        if draw.random() < 0.5 and (batch := join.poll()):
            found.append(batch)
    for source in join.sources:
        source.close()
    found.extend(iter(join.poll, None))
    return pa.Table.from_batches(found, join.schema)


def test_aggregates_of_rows_that_come_are_those_of_tables() -> None:
    draw = random.Random(7)  # noqa: S311 - for tests
    tables = []
    for count in (500, 700):
        times = sorted(draw.choices(range(400), k=count))
        columns = {
            "ts": times,
            "near": draw.choices([None, 0, 2, 5, 8], k=count),
            "x": range(count),
        }
        tables.append(pa.table(columns))
    aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "all": tg.agg.collect("x")}
    for lower, upper in itertools.product(
        [-3, "-left.near", "-right.near"], ["left.near", "right.near"]
    ):
        query = {"on": "ts", "lower": lower, "upper": upper, "aggs": aggs}
        join = tg.IntervalJoin(*(table.schema for table in tables), **query, max_width=9)
        wanted = tg.interval_join(*tables, **query)
        assert fed(join, tables, draw).sort_by("x").equals(wanted.sort_by("x")), (lower, upper)


def test_rows_are_late_or_wide_and_a_snapshot_keeps_both() -> None:
    schema = pa.schema({"ts": pa.int64(), "near": pa.int64()})

    def made() -> tg.IntervalJoin:
        return tg.IntervalJoin(
            schema, schema, on="ts", lower=0, upper=tg.left.near, max_width=5, lateness=2
        )

    join = made()
    times, nears = [10, 20, 3, 21, 4, 22], [5, 6, 1, 5, 9, -6]
    join.left_sources[0].push(pa.table({"ts": times, "near": nears}, schema=schema))
    restored = made()
    restored.restore(join.snapshot())
    for operator in (join, restored):
        late = operator.late()
        assert late["late_position"].to_pylist() == [1, 2, 4, 5]
        assert late["late_reason"].to_pylist() == ["wide", "late", "wide", "wide"]
        assert late["late_watermark"].to_pylist() == [None, 8, None, None]
        assert operator.stats()["rows_late"] == 4
        # Rows that are set aside do not move the watermark.
        assert operator.stats()["sources"][0]["watermark"] == 19


def test_each_side_can_have_its_own_width() -> None:
    schema = pa.schema({"ts": pa.int64(), "near": pa.int64()})
    query = {"on": "ts", "lower": "-right.near", "upper": "left.near"}
    join = tg.IntervalJoin(schema, schema, **query, max_width=(2, 5), how="full")
    assert "at most 2 steps from the times of left rows and 5 steps from those" in join.explain()
    left = pa.table({"ts": [1, 2, 9], "near": [3, 2, 0]}, schema=schema)
    right = pa.table({"ts": [0, 4, 5, 12], "near": [5, 6, 0, 3]}, schema=schema)
    for source, rows_of_side in zip(join.sources, (left, right), strict=True):
        source.push(rows_of_side)
        source.close()
    found = pa.Table.from_batches(join, join.schema)
    # The first left row and the second right row are too wide.
    wanted = tg.interval_join(left[1:], right.take([0, 2, 3]), **query, how="full")
    assert sorted(found.to_pylist(), key=repr) == sorted(wanted.to_pylist(), key=repr)
    assert join.late()["late_position"].to_pylist() == [0, 1]


def test_a_bound_that_is_computed_bounds_the_state() -> None:
    schema = pa.schema({"ts": pa.int64(), "near": pa.int64()})
    join = tg.IntervalJoin(schema, schema, on="ts", lower=0, upper="left.near", max_width=100)
    for start in range(0, 100_000, 10_000):
        times = pa.table(
            {"ts": range(start, start + 10_000), "near": [100] * 10_000}, schema=schema
        )
        for source in join.sources:
            source.push(times)
        while join.poll() is not None:
            pass
        assert join.stats()["state_rows"] < 500


# Peers


@pytest.mark.parametrize("seed", range(campaign.tries(4)))
def test_duckdb_finds_the_same(seed) -> None:
    draw = random.Random(seed)  # noqa: S311 - for tests
    start = dt.datetime(2024, 3, 1)  # noqa: DTZ001 - naive
    lefts = [
        (i, start + dt.timedelta(seconds=draw.randrange(5000)), draw.choice("abc"))
        for i in range(400)
    ]
    left = pa.table(
        {
            "l": [i for i, _, _ in lefts],
            "ts": [ts for _, ts, _ in lefts],
            "k": [k for _, _, k in lefts],
            "until": [ts + dt.timedelta(seconds=draw.expovariate(0.02)) for _, ts, _ in lefts],
        }
    )
    right = pa.table(
        {
            "r": range(600),
            "ts": [start + dt.timedelta(seconds=draw.randrange(5000)) for _ in range(600)],
            "k": draw.choices("abc", k=600),
            "near": [dt.timedelta(seconds=draw.expovariate(0.05)) for _ in range(600)],
        }
    )
    found = tg.interval_join(left, right, on="ts", by="k", lower="0s", upper="left.until")
    # Older DuckDB releases close a connection that is referenced only by a relation.
    connection = connected(left, right)
    wanted = duckdb.sql(
        "SELECT l, r FROM a JOIN b USING (k) WHERE b.ts BETWEEN a.ts AND a.until ORDER BY l, r",
        connection=connection,
    ).fetchall()
    assert rows(found) == wanted
    found = tg.interval_join(
        left, right, on="ts", by="k", lower=-tg.right.near, upper=tg.right.near
    )
    wanted = duckdb.sql(
        "SELECT l, r FROM a JOIN b USING (k) "
        "WHERE a.ts BETWEEN b.ts - b.near AND b.ts + b.near ORDER BY l, r",
        connection=connection,
    ).fetchall()
    assert rows(found) == wanted


def connected(left: pa.Table, right: pa.Table) -> duckdb.DuckDBPyConnection:
    """Open a connection in which the tables are named a and b."""
    connection = duckdb.connect(config={"threads": 2})
    connection.register("a", left)
    connection.register("b", right)
    return connection


# Literal results


T0 = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - naive


def seconds(*values: int | None) -> list[dt.timedelta | None]:
    return [None if value is None else dt.timedelta(seconds=value) for value in values]


def test_durations_integers_and_times() -> None:
    left = pa.table(
        {
            "ts": [T0, T0 + dt.timedelta(seconds=10)],
            "near": seconds(3, None),
            "n": [3, 4],
            "until": [T0 + dt.timedelta(seconds=4), T0],
        }
    )
    right = pa.table(
        {"ts": [T0 + dt.timedelta(seconds=s) for s in (0, 3, 4, 5, 14)], "r": range(5)}
    )

    def found(upper: Any) -> list[tuple[int, int]]:
        table = tg.interval_join(left, right, on="ts", lower="0s", upper=upper)
        return list(zip(table["n"].to_pylist(), table["r"].to_pylist(), strict=True))

    assert found(tg.left.near) == [(3, 0), (3, 1)]
    assert found("left.near") == found(tg.left.near)
    assert found(tg.left.near + dt.timedelta(seconds=2)) == [(3, 0), (3, 1), (3, 2), (3, 3)]
    # The second row ends before it begins.
    assert found(tg.left.until) == [(3, 0), (3, 1), (3, 2)]
    assert found(tg.left.n * dt.timedelta(seconds=1)) == [(3, 0), (3, 1), (4, 4)]
    assert found("INTERVAL '1 second' * left.n") == [(3, 0), (3, 1), (4, 4)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"lower": "0s", "upper": tg.left.n},
            (
                "upper: `left.n` is int64, which has no unit, but the time columns are dates or "
                "timestamps; make it a duration, as in upper=\"(left.n) * INTERVAL '1 second'\""
            ),
        ),
        (
            {"lower": tg.right.until, "upper": None},
            (
                "lower: `right.until` is timestamp[us], a time of the right side, and lower bounds "
                "`right.ts`; for the left rows whose time is between two times of a right row, "
                'write overlap_join with on=(("ts", "ts"), (start, end))'
            ),
        ),
        (
            {"lower": "left.near + right.near", "upper": None},
            (
                "lower: `left.near + right.near` uses columns of both sides, expected columns of "
                "one side; compare columns of both sides in where"
            ),
        ),
        (
            {"lower": tg.left.near * 0.5, "upper": None},
            (
                "lower `left.near * 0.5`: cannot compute `left.near` of type duration[us] with "
                "`0.5` of type double"
            ),
        ),
        (
            {"lower": tg.left.ner, "upper": None},
            "lower: the left table has no column `ner`; it has `ts`, `near`, `n`, `until`",
        ),
        (
            {"lower": tg.left.n > 3, "upper": None},
            (
                "lower: `left.n > 3` is bool, expected a time, or a duration (a distance from the "
                "left time)"
            ),
        ),
        (
            {"lower": "left.near +", "upper": None},
            "lower `left.near +`: Expected: an expression, found the end of the text at ",
        ),
    ],
)
def test_ends_that_have_no_meaning_are_refused(arguments, message) -> None:
    table = pa.table({"ts": [T0], "near": seconds(1), "n": [3], "until": [T0]})
    with pytest.raises(tg.TidegateError) as raised:
        tg.interval_join(table, table, on="ts", **arguments)
    assert str(raised.value).startswith(message)


def test_the_zone_of_an_end_is_that_of_the_times() -> None:
    zoned = pa.array([T0], pa.timestamp("us", "UTC"))
    table = pa.table({"ts": [T0], "until": zoned})
    with pytest.raises(tg.SchemaError, match="times with and without a time zone cannot be"):
        tg.interval_join(table, table, on="ts", lower=None, upper=tg.left.until)


def test_integers_have_no_durations() -> None:
    table = pa.table({"ts": [1], "near": seconds(1)})
    with pytest.raises(tg.SchemaError, match="the time columns are integers; give an integer"):
        tg.interval_join(table, table, on="ts", lower=None, upper=tg.left.near)


def test_an_end_that_overflows_is_named() -> None:
    table = pa.table({"ts": [1], "near": [2**62]})
    with pytest.raises(tg.TidegateError, match=r"upper `left.near \* 4`: .*[Oo]verflow"):
        tg.interval_join(table, table, on="ts", lower=None, upper=tg.left.near * 4)


def test_operators_need_a_width_and_functions_none() -> None:
    schema = pa.schema({"ts": pa.int64(), "near": pa.int64()})
    arguments: dict[str, Any] = {"on": "ts", "lower": 0, "upper": tg.left.near}
    with pytest.raises(tg.TidegateError, match="max_width: an end that is computed from columns"):
        tg.IntervalJoin(schema, schema, **arguments)
    with pytest.raises(tg.TidegateError, match="max_width must not be negative"):
        tg.IntervalJoin(schema, schema, **arguments, max_width=-1)
    with pytest.raises(tg.TidegateError, match="lower and upper are the same for all rows"):
        tg.IntervalJoin(schema, schema, on="ts", lower=0, upper=1, max_width=5)
    with pytest.raises(tg.TidegateError, match="prevailing: it requires ends that are the same"):
        tg.interval_join(
            *(schema.empty_table() for _ in range(2)),
            **arguments,
            prevailing=True,
            aggs={"n": tg.agg.count()},
        )


def test_a_word_that_is_no_duration_may_be_meant_for_a_column() -> None:
    table = pa.table({"ts": [1], "until": [2]})
    with pytest.raises(tg.TidegateError, match=r'write a column with its side, as in "left.until"'):
        tg.interval_join(table, table, on="ts", lower=0, upper="until")


def test_an_explanation_shows_the_ends() -> None:
    table = pa.table({"ts": [1], "near": [2]})
    text = tg.explain(
        tg.interval_join, table, table, on="ts", lower=-3, upper="right.near", closed="left"
    )
    assert "right.ts - left.ts in [-3, right.near) integer" in text
    mixed = tg.explain(
        tg.interval_join, table, table, on="ts", lower="left.near", upper="right.near"
    )
    assert "a row whose end is on the wrong side of its time" in mixed
    operator = tg.IntervalJoin(
        table.schema, table.schema, on="ts", lower=tg.left.near, upper=None, max_width=7
    )
    assert "right.ts - left.ts in [left.near, +inf) integer" in operator.explain()
    assert "ends are at most 7 steps from the times of their rows" in operator.explain()
