"""A stream joined with itself, each pair once, compared with a nested loop over the sorted rows."""

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.float64()), ("y", pa.int64()), ("k", pa.string())])
ALGORITHMS = [
    "auto", "pim-tree", "im-tree", "bplus-tree", "b-chain", "round-robin", "ibwj",
    "ibwj-bplus-tree",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A query, as arguments and for the nested loop."""

    within: tuple[int, int]
    window: int | None
    rows: int | None
    keyed: bool
    second: bool
    condition: bool

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `BandJoin`."""
        window = tg.rows(self.rows) if self.window is None else self.window
        return {
            "on": ["x", "y"] if self.second else "x",
            "within": [self.within, 3] if self.second else self.within,
            "time": "ts",
            "window": window,
            "by": "k" if self.keyed else None,
            "where": tg.left.y != tg.right.y if self.condition else None,
            "columns": ["ts", "n", "n_right"],
        }

    def are_near(self, later: dict[str, Any], earlier: dict[str, Any], between: int) -> bool:
        """Return whether two rows with `between` other rows between them are a pair."""
        if self.window is None:
            in_window = between < self.rows
        else:
            in_window = later["ts"] - self.window <= earlier["ts"]
        below, above = self.within
        # Null matches nothing, and NaN fails each comparison.
        values = [row["x"] for row in (later, earlier)]
        near = None not in values and values[0] - below <= values[1] <= values[0] + above
        if self.second:
            near = near and abs(later["y"] - earlier["y"]) <= 3
        if self.keyed:
            near = near and later["k"] == earlier["k"] is not None
        if self.condition:
            near = near and later["y"] != earlier["y"]
        return in_window and near


def pairs(case, sources):
    """Return the pairs of each row of the sources and its earlier rows, as row numbers."""
    merged = sorted(
        (row["ts"], number, position, row)
        for number, rows in enumerate(sources)
        for position, row in enumerate(sorted(rows, key=itemgetter("ts")))
    )
    rows = [row for *_, row in merged]
    return [
        (later["n"], earlier["n"])
        for at, later in enumerate(rows)
        for before, earlier in enumerate(rows[:at])
        if case.are_near(later, earlier, at - before - 1)
    ]


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA.append(pa.field("n", pa.int64())))


def found(join):
    return [pair for batch in drained(join) for pair in numbers(batch)]


def numbers(batch):
    return list(zip(batch["n"].to_pylist(), batch["n_right"].to_pylist(), strict=True))


def drained(join):
    while (batch := join.poll()) is not None:
        yield batch


VALUES = st.one_of(st.integers(0, 12).map(float), st.none(), st.just(math.nan))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 30),
            "x": VALUES,
            "y": st.integers(0, 9),
            "k": st.sampled_from(["a", "b", None]),
        }
    ),
    max_size=40,
)
CASES = st.builds(
    Case,
    within=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    window=st.none() | st.integers(0, 12),
    rows=st.integers(1, 9),
    keyed=st.booleans(),
    second=st.booleans(),
    condition=st.booleans(),
)


@given(
    case=CASES,
    sources=st.lists(ROWS, min_size=1, max_size=3),
    algorithm=st.sampled_from(ALGORITHMS),
    threads=st.integers(1, 3),
    ordered=st.booleans(),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    restores=st.none() | st.integers(0, 6),
)
def test_each_pair_comes_once(case, sources, algorithm, threads, ordered, cuts, restores):
    for number, row in enumerate(row for rows in sources for row in rows):
        row["n"] = number
    sources = [sorted(rows, key=itemgetter("ts")) for rows in sources]
    expected = pairs(case, sources)

    def make():
        return tg.BandJoin(
            table([]).schema, None, **case.arguments(), sources=(len(sources), 0),
            algorithm=algorithm, threads=threads, ordered=ordered, pin=False,
        )  # fmt: skip

    join, out, left = make(), [], [list(rows) for rows in sources]
    step = 0
    while any(left):
        for source, rows in zip(join.sources, left, strict=True):
            count = cuts[step % len(cuts)]
            step += 1
            if rows:
                source.push(table(rows[:count]))
                del rows[:count]
        out += found(join)
        if step // len(sources) == restores:
            state = join.snapshot()
            join = make()
            join.restore(state)
    for source in join.sources:
        source.close()
    out += found(join)
    if ordered:
        assert out == expected
    else:
        assert sorted(out) == sorted(expected)


@given(rows=ROWS, case=CASES, lateness=st.integers(0, 9), algorithm=st.sampled_from(ALGORITHMS))
def test_rows_out_of_order_are_put_in_order(rows, case, lateness, algorithm):
    for number, row in enumerate(rows):
        row["n"] = number
    watermark, used = -math.inf, []
    for row in rows:
        if row["ts"] >= watermark:
            used.append(row)
            watermark = max(watermark, row["ts"] - lateness)
    join = tg.BandJoin(
        table([]).schema, None, **case.arguments(), lateness=[lateness], algorithm=algorithm,
        threads=2, pin=False,
    )  # fmt: skip
    with join.sources[0] as source:
        for row in rows:
            source.push(table([row]))
    assert found(join) == pairs(case, [used])
    assert join.stats()["rows_in"] - join.stats()["rows_late"] == len(used)


def test_many_rows_on_any_number_of_threads_give_the_pairs_of_two_sides():
    count = 40_000
    ts = pa.array([n // 3 for n in range(count)])
    x = pa.array([(n * 7919) % 100_003 for n in range(count)])
    rows = pa.table({"ts": ts, "x": x, "n": pa.array(range(count))})
    asked = {"on": "x", "within": (40, 90), "time": "ts", "window": 2_000}
    both = tg.band_join(rows, rows, **asked, columns=["n", "n_right"])
    later = both.filter(pa.compute.greater(both["n"], both["n_right"]))
    assert later.num_rows > count
    for algorithm in ALGORITHMS:
        for threads in (1, 4):
            join = tg.BandJoin(
                rows.schema, None, **asked, columns=["n", "n_right"], algorithm=algorithm,
                threads=threads, pin=False,
            )  # fmt: skip
            with join.sources[0] as source:
                source.push(rows)
            assert pa.Table.from_batches(join).equals(later), (algorithm, threads)


def test_there_is_one_index_and_another_column_is_indexed_if_it_gives_fewer_candidates():
    rows = pa.table({"ts": range(5_000), "x": [0] * 5_000, "y": range(5_000)})
    join = tg.BandJoin(
        rows.schema, None, on=["x", "y"], within=[0, 1], time="ts", window=tg.rows(100)
    )
    assert "buckets, on the band" in str(join.explain())
    assert "an earlier row of the same stream" in str(join.explain())
    with join.sources[0] as source:
        source.push(rows)
    assert sum(batch.num_rows for batch in join) == 4_999
    assert join.stats()["index"] == "buckets on right.y"
    assert sum(join.stats()["comparisons"]) < 50_000


def test_sources_come_and_go():
    rows = table([{"ts": 1, "x": 1.0, "n": 0}])
    join = tg.BandJoin(rows.schema, None, on="x", within=0, time="ts", window=5)
    assert (len(join.left_sources), join.right_sources) == (1, [])
    more = join.add_source(side="left")
    join.sources[0].push(rows)
    more.push(table([{"ts": 2, "x": 1.0, "n": 1}]))
    [source.close() for source in join.sources]
    assert [(row["ts"], row["ts_right"]) for batch in join for row in batch.to_pylist()] == [(2, 1)]
    with pytest.raises(tg.TidegateError, match=r"side: a join of one stream .*side=\"left\""):
        tg.BandJoin(rows.schema, None, on="x", within=0, time="ts", window=5).add_source(
            side="right"
        )


def test_a_snapshot_of_two_sides_is_refused():
    schema = table([]).schema
    asked = {"on": "x", "within": 0, "time": "ts", "window": 5}
    state = tg.BandJoin(schema, schema, **asked).snapshot()
    with pytest.raises(tg.StateError):
        tg.BandJoin(schema, None, **asked).restore(state)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"how": "left"}, tg.TidegateError, "how: expected inner"),
        ({"on": [("x", "y")]}, tg.TidegateError, "on: expected one name .* got `x` and `y`"),
        ({"by": {"y": "n"}}, tg.TidegateError, "by: expected one name .* got `y` and `n`"),
        ({"time": ("ts", "y")}, tg.TidegateError, "time: expected one name .* got `ts` and `y`"),
        ({"window": (3, 4)}, tg.TidegateError, "window: expected one window, got two"),
        ({"sources": (2, 1)}, tg.TidegateError, r"write sources=\(2, 0\)"),
        ({"lateness": (1, 2)}, TypeError, "give one duration, or a list"),
        ({"lateness": [1, 2]}, tg.TidegateError, "list with a value for each of the 1 left"),
        (
            {"aggs": {"n": tg.agg.count()}},
            tg.TidegateError,
            "leave aggs out, or give the same schema",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(arguments, error, message):
    given = {"on": "x", "within": 1, "time": "ts", "window": 5, **arguments}
    with pytest.raises(error, match=message):
        tg.BandJoin(table([]).schema, None, **given)


def test_other_joins_and_sides_still_need_a_schema():
    schema = table([]).schema
    with pytest.raises(TypeError, match="right"):
        tg.IntervalJoin(schema, None, on="ts", lower=0, upper=0)
    with pytest.raises(TypeError, match="left"):
        tg.BandJoin(None, None, on="x", within=1, time="ts", window=5)
    with pytest.raises(tg.TidegateError, match="sources"):
        tg.BandJoin(schema, schema, on="x", within=1, time="ts", window=5, sources=(1, 0))
