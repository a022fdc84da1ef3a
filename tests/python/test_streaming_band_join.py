"""`tidegate.BandJoin`: rows and order, compared with a loop over all pairs, at any timing.

The windowed forms of `band_join` are also tested here, because they have the same pairs, in row
order.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import BandJoin, MemoryLimitError, StateError, TidegateError, band_join, rows

INDEXES = [
    "buckets", "pim-tree", "im-tree", "bplus-tree", "b-chain", "ib-chain", "round-robin", "ibwj",
    "ibwj-blocking", "ibwj-bplus-tree",
]  # fmt: skip
HOW = ["inner", "left", "right", "full", "semi", "anti"]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int32()), ("y", pa.float64())])

Row = dict[str, Any]
Event = tuple[int, pa.Table]


@dataclass(frozen=True)
class Query:
    """The definition of a pair; both sides have the columns of `SCHEMA`."""

    within: dict[str, tuple[float, float]]
    window: tuple[int, int]
    counts: bool
    by: bool
    where: bool
    how: str

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `BandJoin`."""
        window = tuple(map(rows, self.window)) if self.counts else self.window
        found = {"on": list(self.within), "within": list(self.within.values()), "how": self.how}
        found |= {"time": "ts", "window": window}
        found |= {"by": "k"} if self.by else {}
        return found | ({"where": "left.k <= right.k"} if self.where else {})

    def is_pair(self, left: Row, right: Row) -> bool:
        """Return whether values and keys match."""
        for name, (below, above) in self.within.items():
            a, b = left[name], right[name]
            if a is None or b is None or not (a - b <= below and b - a <= above):
                return False
        a, b = left["k"], right["k"]
        known = a is not None and b is not None
        return (not self.by or (known and a == b)) and (not self.where or (known and a <= b))


@dataclass(frozen=True)
class Place:
    """A row in merged order, and the number of earlier rows on each side."""

    ts: int
    source: int
    position: int
    side: int
    row: Row
    before: tuple[int, int]


def in_merged_order(sources: Sequence[Sequence[Row]], left_sources: int) -> list[Place]:
    """Return all rows in merged order; the rows of each source are in time order."""
    placed = sorted(
        (row["ts"], source, position)
        for source, table in enumerate(sources)
        for position, row in enumerate(table)
    )
    found: list[Place] = []
    before = [0, 0]
    for ts, source, position in placed:
        side = int(source >= left_sources)
        row = sources[source][position]
        found.append(Place(ts, source, position, side, row, (before[0], before[1])))
        before[side] += 1
    return found


def matches(query: Query, places: Sequence[Place]) -> Iterator[tuple[int, int]]:
    """Yield the pairs, as places of the later and the earlier row."""
    for late, later in enumerate(places):
        for early, earlier in enumerate(places[:late]):
            if earlier.side == later.side:
                continue
            left, right = (later, earlier) if later.side == 0 else (earlier, later)
            stays = query.window[earlier.side]
            if query.counts:
                inside = later.before[earlier.side] - earlier.before[earlier.side] <= stays
            else:
                inside = later.ts - earlier.ts <= stays
            if inside and query.is_pair(left.row, right.row):
                yield late, early


def expected(query: Query, sources: Sequence[Sequence[Row]], left_sources: int) -> list[Row]:
    """Return the rows of the result, in streaming order."""
    places = in_merged_order(sources, left_sources)
    pairs = list(matches(query, places))
    matched = {place for pair in pairs for place in pair}
    events: list[tuple[tuple[float, ...], int | None, int | None]] = []
    for late, early in pairs:
        left, right = (late, early) if places[late].side == 0 else (early, late)
        events.append(((places[late].ts, 0, late, early), left, right))
    if query.how in ("semi", "anti", "inner"):
        outer: tuple[int, ...] = (0,) if query.how == "anti" else ()
    else:
        outer = {"left": (0,), "right": (1,), "full": (0, 1)}[query.how]
    for at, place in enumerate(places):
        if at not in matched and place.side in outer:
            last = _last_match(query, places, place)
            ends = (at, None) if place.side == 0 else (None, at)
            events.append(((last, 1, at, 0), *ends))
    events.sort(key=lambda event: event[0])
    if query.how == "semi":
        lefts = dict.fromkeys(left for _, left, _ in events)
        return [_result(query, places, left, None) for left in lefts]
    if query.how == "anti":
        events = [event for event in events if event[2] is None]
    return [_result(query, places, left, right) for _, left, right in events]


def _last_match(query: Query, places: Sequence[Place], place: Place) -> float:
    stays = query.window[place.side]
    if not query.counts:
        return place.ts + stays
    number = place.before[place.side] + stays
    later = [other.ts for other in places if other.side == place.side]
    return later[number] if number < len(later) else float("inf")


def _result(query: Query, places: Sequence[Place], left: int | None, right: int | None) -> Row:
    both = [None if at is None else places[at].row for at in (left, right)]
    found = {name: None if both[0] is None else both[0][name] for name in SCHEMA.names}
    if query.how in ("semi", "anti"):
        return found
    for name in SCHEMA.names:
        value = None if both[1] is None else both[1][name]
        if name == "k" and query.by:
            found[name] = value if both[0] is None else found[name]
        else:
            found[f"{name}_right"] = value
    return found


@st.composite
def queries(draw: st.DrawFn) -> Query:
    width = st.tuples(st.integers(0, 3), st.integers(0, 3))
    names = draw(st.sampled_from([["x"], ["y"], ["x", "y"], ["y", "x"]]))
    counts = draw(st.booleans())
    stays = st.integers(1 if counts else 0, 6)
    return Query(
        {name: draw(width) for name in names},
        draw(st.tuples(stays, stays)),
        counts,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(HOW)),
    )


@st.composite
def feeds(draw: st.DrawFn, sources: int) -> list[Event]:
    """Draw rows of several sources, each in time order, in pieces, in the order of their pushes."""
    events = []
    ts = [0] * sources
    value = st.one_of(st.integers(0, 9), st.integers(0, 9), st.none())
    for _ in range(draw(st.integers(0, 12))):
        source = draw(st.integers(0, sources - 1))
        piece = []
        for _ in range(draw(st.integers(1, 6))):
            ts[source] += draw(st.integers(0, 3))
            x, y, k = draw(value), draw(value), draw(st.sampled_from([0, 1, 2, None]))
            y = float("nan") if y == 9 else y
            piece.append({"ts": ts[source], "k": k, "x": x, "y": y})
        events.append((source, pa.Table.from_pylist(piece, SCHEMA)))
    return events


def of_sources(events: list[Event], sources: int) -> list[list[Row]]:
    """Return the rows of each source."""
    return [
        [row for at, table in events if at == source for row in table.to_pylist()]
        for source in range(sources)
    ]


def take(join: tidegate.StreamJoin) -> list[Row]:
    return [row for batch in iter(join.poll, None) for row in batch.to_pylist()]


def feed(join: tidegate.StreamJoin, events: list[Event], rng: random.Random) -> list[Row]:
    """Return the rows that a join emits while it is fed and sometimes polled."""
    found = []
    for source, table in events:
        join.sources[source].push(table)
        if rng.random() < 0.4:
            found += take(join)
    return found


def finish(join: tidegate.StreamJoin) -> list[Row]:
    for source in join.sources:
        source.close()
    return [row for batch in join for row in batch.to_pylist()]


def same(found: list[Row], wanted: list[Row]) -> None:
    """Compare rows and order. Here NaN equals NaN."""
    assert list(map(repr, found)) == list(map(repr, wanted))


@given(queries(), feeds(4), st.sampled_from(["auto", *INDEXES]), st.integers(1, 4), st.randoms())
def test_oracle_any_index_and_threads(query, events, algorithm, threads, rng):
    wanted = expected(query, of_sources(events, 4), 2)
    with BandJoin(
        SCHEMA, SCHEMA, **query.arguments(), sources=(2, 2), algorithm=algorithm, threads=threads,
        pin=False,
    ) as join:  # fmt: skip
        same(feed(join, events, rng) + finish(join), wanted)


@given(queries(), feeds(2), st.sampled_from(INDEXES), st.sampled_from(INDEXES), st.randoms())
def test_oracle_a_snapshot_goes_on(query, events, before, after, rng):
    wanted = expected(query, of_sources(events, 2), 1)
    cut = rng.randint(0, len(events))
    with BandJoin(SCHEMA, SCHEMA, **query.arguments(), algorithm=before, threads=1) as first:
        begun = feed(first, events[:cut], rng)
        state = first.snapshot()
        # The operator that made the snapshot also continues.
        same(begun + feed(first, events[cut:], rng) + finish(first), wanted)
    with BandJoin(
        SCHEMA, SCHEMA, **query.arguments(), algorithm=after, threads=2, pin=False
    ) as other:
        other.restore(state)
        assert other.snapshot() == state
        same(begun + feed(other, events[cut:], rng) + finish(other), wanted)


@given(queries(), feeds(2), st.randoms())
def test_oracle_late_rows_and_any_order(query, events, rng):
    events = [(at, table.take(rng.sample(range(len(table)), len(table)))) for at, table in events]
    used: list[list[Row]] = [[], []]
    with BandJoin(SCHEMA, SCHEMA, **query.arguments(), lateness=2, ordered=False) as join:
        watermark = [-(2**63)] * 2
        late = 0
        for source, table in events:
            for row in table.to_pylist():
                if row["ts"] < watermark[source]:
                    late += 1
                else:
                    used[source].append(row)
                    watermark[source] = max(watermark[source], row["ts"] - 2)
        found = feed(join, events, rng) + finish(join)
        assert join.stats()["rows_late"] == late == join.late().num_rows
    for side in used:
        side.sort(key=lambda row: row["ts"])
    assert sorted(map(repr, found)) == sorted(map(repr, expected(query, used, 1)))


@given(
    queries(), feeds(2), st.sampled_from(["auto", "sort", *INDEXES]), st.integers(1, 3),
    st.randoms(),
)  # fmt: skip
def test_oracle_windows_of_tables(query, events, algorithm, threads, rng):
    sides = of_sources(events, 2)
    # Row order is not time order; merged order is by time, then by row.
    shuffled = [rng.sample(range(len(side)), len(side)) for side in sides]
    tables = [
        pa.Table.from_pylist([side[row] | {"row": at} for at, row in enumerate(order)], _WITH_ROW)
        for side, order in zip(sides, shuffled, strict=True)
    ]
    sorted_rows = [sorted(table.to_pylist(), key=lambda row: row["ts"]) for table in tables]
    places = in_merged_order(sorted_rows, 1)
    pairs = []
    for late, early in matches(query, places):
        both = [places[late].row["row"], places[early].row["row"]]
        pairs.append(tuple(both if places[late].side == 0 else reversed(both)))
    pairs.sort()
    lefts, rights = {left for left, _ in pairs}, {right for _, right in pairs}
    wanted: list[tuple[int | None, int | None]] = []
    for left in range(tables[0].num_rows):
        own = [pair for pair in pairs if pair[0] == left]
        if query.how in ("semi", "anti"):
            wanted += [(left, None)] if (left in lefts) == (query.how == "semi") else []
        else:
            wanted += own or ([(left, None)] if query.how in ("left", "full") else [])
    if query.how in ("right", "full"):
        wanted += [(None, row) for row in range(tables[1].num_rows) if row not in rights]
    found = band_join(*tables, **query.arguments(), algorithm=algorithm, threads=threads)
    columns = found.to_pydict()
    right = columns.get("row_right", [None] * found.num_rows)
    assert list(zip(columns["row"], right, strict=True)) == wanted


_WITH_ROW = SCHEMA.append(pa.field("row", pa.int64()))


@given(queries(), feeds(2), st.sampled_from(INDEXES))
def test_whole_tables_by_an_index_are_as_sorted_ones(query, events, algorithm):
    tables = [pa.Table.from_pylist(side, SCHEMA) for side in of_sources(events, 2)]
    arguments = query.arguments()
    del arguments["time"], arguments["window"]
    found = band_join(*tables, **arguments, algorithm=algorithm)
    same(found.to_pylist(), band_join(*tables, **arguments).to_pylist())


def table(ts: Sequence[int], x: Sequence[int], y: Sequence[int] | None = None) -> pa.Table:
    columns = {"ts": list(ts), "x": list(x)} | ({} if y is None else {"y": list(y)})
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_the_most_selective_column_is_indexed_and_another_when_that_changes():
    size = 40_000
    x, y = list(range(size)), [number % 4 for number in range(size)]
    schema = table([], [], []).schema
    with BandJoin(
        schema, schema, on=["y", "x"], within=0, time="ts", window=rows(500), threads=1
    ) as join:
        # At first all values of x are equal, and y is selective; later it is the other way around.
        for start in range(0, size, 1000):
            few, many = (
                ([7] * 1000, x[:1000]) if start < 2000 else (x[start : start + 1000], y[:1000])
            )
            for source in join.sources:
                source.push(table(range(start, start + 1000), few, many))
            found = take(join)
            if start == 1000:
                assert join.stats()["index"] == "buckets on right.y"
        assert join.stats()["index"] == "buckets on right.x"
        assert found
        # With any index, old rows are removed.
        assert join.stats()["state_rows"] <= 2 * 500 + 4


def test_a_key_is_indexed_where_it_tells_more_apart():
    schema = table([], []).schema
    numbers = range(2000)
    with BandJoin(
        schema, schema, on="ts", within=10_000, by="x", time="ts", window=10_000, threads=1
    ) as join:
        for source in join.sources:
            source.push(table(numbers, numbers))
        assert len(take(join)) >= 1990
        stats = join.stats()
    assert stats["index"] == "buckets on the key"
    assert sum(stats["comparisons"]) < 2 * 2000


def test_merges_are_counted():
    schema = table([], []).schema
    numbers = range(5000)
    for algorithm, merges in [
        ("im-tree", True),
        ("pim-tree", True),
        ("ibwj", True),
        ("ibwj-bplus-tree", False),
        ("buckets", False),
    ]:
        with BandJoin(
            schema, schema, on="x", within=1, time="ts", window=rows(1000), algorithm=algorithm
        ) as join:
            for source in join.sources:
                source.push(table(numbers, numbers))
            take(join)
            assert (join.stats()["merges"] > 0) == merges, algorithm


def test_a_snapshot_of_another_band_is_refused():
    schema = table([], []).schema
    arguments = {"on": "x", "time": "ts", "window": rows(3)}
    with BandJoin(schema, schema, **arguments, within=1) as join:
        state = join.snapshot()
    with BandJoin(schema, schema, **arguments, within=2) as other, pytest.raises(StateError):
        other.restore(state)


def test_the_memory_limit_holds():
    schema = table([], []).schema
    with BandJoin(
        schema, schema, on="x", within=1, time="ts", window=10**6, memory_limit=100_000
    ) as join:
        fits = table(range(1000), range(1000))
        join.sources[0].push(fits)
        too_many = table(range(1000, 10_000), range(9000))
        with pytest.raises(MemoryLimitError):
            join.sources[0].push(too_many)
        assert join.stats()["memory"] <= 100_000


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"algorithm": "sort"}, "algorithm: sort is for whole tables; use auto or an index"),
        ({"algorithm": "hash"}, "algorithm must be one of auto, sort, buckets, pim-tree, im-tree"),
        ({"within": -1}, "within must not be negative or NaN, but it is -1 for `x`"),
        ({"window": -1}, "window must not be negative, got -1"),
        (
            {"window": (1, rows(1))},
            "window: one side has a time and the other has a number of rows",
        ),
        ({"time": "t"}, "left: there is no column `t`, which `time` names"),
    ],
)
def test_bad_arguments(arguments, text):
    schema = table([], []).schema
    arguments = {"on": "x", "within": 1, "time": "ts", "window": 1} | arguments
    with pytest.raises(TidegateError) as caught:
        BandJoin(schema, schema, **arguments)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"window": 5}, "window requires a time column; give time"),
        ({"time": "ts"}, "time is used only with a window; give a window, or leave time out"),
    ],
)
def test_windows_of_tables_need_both_arguments(arguments, text):
    rows_ = table([1], [1])
    with pytest.raises(TidegateError, match=text):
        band_join(rows_, rows_, on="x", within=1, **arguments)


def test_an_index_looks_at_the_rows_of_the_window_alone():
    size = 20_000
    rows_ = table(range(size), [1] * size)
    arguments = {"on": "x", "within": 0, "time": "ts", "window": rows(3)}
    wanted = [(left, left + other) for left in range(size) for other in range(-3, 4)]
    wanted = [pair for pair in wanted if 0 <= pair[1] < size]
    for algorithm in ("auto", "sort", "buckets", "ibwj", "ibwj-bplus-tree"):
        found = band_join(rows_, rows_, **arguments, algorithm=algorithm)
        # Left rows precede right rows in merged order, so each matches three earlier and two later
        # rows.
        assert found.num_rows == sum(-3 <= right - left <= 2 for left, right in wanted), algorithm
    with pytest.raises(MemoryLimitError, match="more than max_rows = 100"):
        band_join(rows_, rows_, **arguments, algorithm="buckets", max_rows=100)


def test_explain_says_why_an_index_is_used_or_not():
    schema = table([], []).schema
    streaming = {"on": "x", "within": 1, "time": "ts", "window": (2, 3)}
    text = tidegate.explain(BandJoin, schema, schema, **streaming)
    assert text.splitlines()[:4] == [
        "band_join (inner)",
        "  band       left.x - 1 <= right.x <= left.x + 1, compared as int64",
        "  time       left.ts, right.ts",
        "  window     left rows stay for 2, right rows for 3 (integer)",
    ]
    assert "  index      buckets per side, on right.x; the fastest for any window" in text
    # 40 bytes, and room for two rows of the two result columns.
    assert "plus 72 bytes per row" in text
    text = tidegate.explain(BandJoin, schema, schema, **streaming, algorithm="ibwj")
    assert "  index      shared PIM-Tree per side, merge ratio 1, on right.x\n" in text
    assert "(IBWJ): threads take tasks of 64 rows; merged in two phases" in text
    text = tidegate.explain(BandJoin, schema, schema, **streaming, algorithm="ibwj-bplus-tree")
    assert "  index      shared B+-tree with optimistic locks per side, on" in text
    assert "threads take tasks of 64 rows; threads remove the rows that have left" in text
    whole = tidegate.explain(band_join, schema.empty_table(), schema.empty_table(), **streaming)
    assert (
        "buckets instead, if a sample shows that this leaves more than 1024 pairs to check" in whole
    )
    text = tidegate.explain(band_join, schema, schema, on="x", within=1)
    assert "no index, since without windows rows are never removed from it" in text


SETTINGS = [
    ("pim-tree", {"merge_ratio": 0.01}, ", merge ratio 0.01,"),
    ("pim-tree", {"merge_ratio": 1, "insertion_depth": 0}, ", merge ratio 1, insertion depth 0,"),
    ("pim-tree", {"insertion_depth": 3}, ", merge ratio 0.25, insertion depth 3,"),
    ("im-tree", {"merge_ratio": 0.5}, ", merge ratio 0.5,"),
    ("b-chain", {"chain_length": 9}, ", 9 in a chain,"),
    ("ib-chain", {"chain_length": 2}, ", 2 in a chain,"),
    ("ibwj", {"task_rows": 3, "merge_ratio": 0.1}, ", merge ratio 0.1,"),
    ("ibwj-blocking", {"insertion_depth": 1}, ", merge ratio 1, insertion depth 1,"),
    ("ibwj-bplus-tree", {"task_rows": 3}, "threads take tasks of 3 rows"),
]


@pytest.mark.parametrize(("algorithm", "settings", "told"), SETTINGS)
def test_settings_change_the_index_and_no_row(algorithm, settings, told):
    rng = random.Random(11)  # noqa: S311 - not for secrets
    rows = table(range(4_000), [rng.randrange(900) for _ in range(4_000)])
    query = {"on": "x", "within": 1, "time": "ts", "window": 300}
    wanted = band_join(rows, rows, **query)
    with_settings = query | {"algorithm": algorithm, "settings": settings}
    assert band_join(rows, rows, **with_settings).equals(wanted)
    assert told in tidegate.explain(BandJoin, rows, rows, **with_settings)

    def merges(**also):
        join = BandJoin(rows.schema, rows.schema, **query, algorithm=algorithm, **also)
        for source in join.sources:
            source.push(rows)
            source.close()
        assert sum(batch.num_rows for batch in join) == wanted.num_rows
        return join.stats()["merges"]

    # The ratio determines how often trees are merged.
    if settings.get("merge_ratio", 1) < 0.1:
        assert merges(settings=settings) > merges()


@pytest.mark.parametrize(
    ("algorithm", "settings", "error", "text"),
    [
        (
            "auto",
            {"merge_ratio": 0.5},
            TidegateError,
            "algorithm=\"auto\" has no 'merge_ratio'; it has no",
        ),
        (
            "im-tree",
            {"insertion_depth": 1},
            TidegateError,
            "has no 'insertion_depth'; it has merge_ratio",
        ),
        (
            "pim-tree",
            {"merge_ratio": 0},
            TidegateError,
            "merge_ratio must be above 0 and at most 1, got 0",
        ),
        ("pim-tree", {"merge_ratio": float("nan")}, TidegateError, "at most 1, got NaN"),
        ("pim-tree", {"merge_ratio": "a"}, TypeError, "merge_ratio: expected a number, got .*str"),
        (
            "pim-tree",
            {"insertion_depth": -1},
            TidegateError,
            "insertion_depth must be from 0 to 32",
        ),
        (
            "b-chain",
            {"chain_length": 1},
            TidegateError,
            "chain_length must be from 2 to 1024, got 1",
        ),
        ("ib-chain", {"chain_length": 2.5}, TypeError, "chain_length: expected an integer"),
        ("ibwj", {"task_rows": 0}, TidegateError, "task_rows must be from 1 to 65536, got 0"),
        (
            "ibwj-bplus-tree",
            {"merge_ratio": 0.5},
            TidegateError,
            "has no 'merge_ratio'; it has task_rows",
        ),
        ("ibwj", [], TypeError, "settings: expected a dict"),
    ],
)
def test_settings_without_meaning_are_refused(algorithm, settings, error, text):
    rows = table([1], [1])
    query = {"on": "x", "within": 1, "time": "ts", "window": 3}
    with pytest.raises(error, match=text):
        BandJoin(rows.schema, rows.schema, **query, algorithm=algorithm, settings=settings)


@pytest.mark.parametrize("algorithm", ["buckets", "round-robin", "ibwj", "ibwj-bplus-tree"])
@pytest.mark.parametrize("threads", [1, 3])
def test_each_thread_has_a_number_of_comparisons(algorithm, threads):
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    join = BandJoin(
        schema, schema, on="x", within=0, time="ts", window=50, algorithm=algorithm, threads=threads
    )
    assert join.stats()["comparisons"] == [0] * threads
    table = pa.table({"ts": range(500), "x": [0] * 500}, schema)
    for source in join.sources:
        source.push(table)
        source.close()
    pairs = sum(batch.num_rows for batch in join)
    comparisons = join.stats()["comparisons"]
    assert len(comparisons) == threads
    assert sum(comparisons) >= pairs > 0
