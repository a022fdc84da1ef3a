"""Functions weighted by time, lists of a few rows, and durations: the same results as loops."""

import datetime as dt
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run
from tidegate import Aggregate, SchemaError, TidegateError, agg, aggregate, interval_join

Rows = list[dict[str, Any]]

AGGS = {
    "held": agg.time_weighted_mean("v"),
    "held_where": agg.time_weighted_mean("v", where="size > 3"),
    "decayed": agg.ewm_mean("v", 7),
    "first": agg.first("v", 2),
    "last": agg.last("size", 3, where="size > 2"),
    "top": agg.top("v", 2),
    "top_by": agg.top("size", 3, by="s"),
    "all": agg.sum("b"),
    "share": agg.mean("b"),
    "lasted": agg.sum("d"),
    "mean_lasted": agg.mean("d"),
}


def table(rng: np.random.Generator, count: int, reach: int = 200) -> pa.Table:
    return pa.table(
        {
            "ts": np.sort(rng.integers(-reach, reach, count)),
            "k": rng.integers(0, 3, count),
            "v": pa.array(rng.integers(0, 9, count) / 8, mask=rng.random(count) < 0.2),
            "size": rng.integers(0, 9, count),
            "s": pa.array(rng.choice(["a", "bb", "", "c"], count), mask=rng.random(count) < 0.1),
            "b": pa.array(rng.random(count) < 0.5, mask=rng.random(count) < 0.2),
            "d": pa.array(rng.integers(-9, 9, count), pa.duration("ms")),
        }
    )


def held(rows: Rows, start: int | None, end: int) -> float | None:
    """Return the mean weighted by time, for rows of which only the first can be before `start`."""
    known = [(row["ts"], row["v"]) for row in rows if row["v"] is not None]
    if not known:
        return None
    times = [ts if start is None else max(ts, start) for ts, _ in known] + [end]
    spans = [later - earlier for earlier, later in itertools.pairwise(times)]
    if sum(spans) == 0:
        return known[-1][1]
    area = sum(Fraction(v) * span for (_, v), span in zip(known, spans, strict=True))
    return float(area / sum(spans))


def decayed(rows: Rows, half_life: int) -> float | None:
    known = [(row["ts"], row["v"]) for row in rows if row["v"] is not None]
    weights = [0.5 ** ((known[-1][0] - ts) / half_life) for ts, _ in known]
    pairs = zip(weights, known, strict=True)
    return sum(w * v for w, (_, v) in pairs) / sum(weights) if known else None


def top(rows: Rows, n: int, name: str, by: str) -> list[Any] | None:
    known = [row for row in rows if row[by] is not None]
    most = sorted(known, key=lambda row: row[by], reverse=True)  # equal rows stay in order
    return [row[name] for row in most[:n]] or None


def expected(rows: Rows, start: int | None, end: int) -> dict[str, Any]:
    flags = [row["b"] for row in rows if row["b"] is not None]
    lasted = [row["d"] // dt.timedelta(milliseconds=1) for row in rows]
    half_up = (2 * abs(sum(lasted)) + len(rows)) // (2 * len(rows)) if rows else 0
    mean = half_up if sum(lasted) > 0 else -half_up
    return {
        "held": held(rows, start, end),
        "held_where": held([row for row in rows if row["size"] > 3], start, end),
        "decayed": decayed(rows, 7),
        "first": [row["v"] for row in rows[:2]] or None,
        "last": [row["size"] for row in rows if row["size"] > 2][-3:] or None,
        "top": top(rows, 2, "v", "v"),
        "top_by": top(rows, 3, "size", "s"),
        "all": sum(flags) if flags else None,
        "share": sum(flags) / len(flags) if flags else None,
        "lasted": dt.timedelta(milliseconds=sum(lasted)) if rows else None,
        "mean_lasted": dt.timedelta(milliseconds=mean) if rows else None,
    }


def check(found: Rows, wanted: Rows) -> None:
    assert len(found) == len(wanted) > 0
    for ours, theirs in zip(found, wanted, strict=True):
        for name, value in theirs.items():
            given = ours[name]
            if isinstance(value, float) and value is not None:
                given = pytest.approx(given, rel=1e-12, abs=1e-12)
            assert given == value, (name, ours, theirs)


def in_order(tables: list[pa.Table]) -> Rows:
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: row["ts"])  # the sort is stable


@pytest.mark.parametrize(("size", "advance"), [(20, 20), (30, 9)])
def test_windows_of_tables_and_streams(size, advance):
    query: dict[str, Any] = {"on": "ts", "by": "k", "size": size, "advance": advance}
    for seed in range(campaign.tries(3)):
        rng = np.random.default_rng(seed)
        tables = [table(rng, int(rng.integers(1, 120))) for _ in range(2)]
        found = aggregate(tables, **query, aggs=AGGS, threads=1)
        for threads in (2, 4):
            assert aggregate(tables, **query, aggs=AGGS, threads=threads).equals(found)
        every = in_order(tables)
        wanted = []
        for one in found.select(["window_start", "window_end", "k"]).to_pylist():
            start, end = one["window_start"], one["window_end"]
            rows = [row for row in every if start <= row["ts"] < end and row["k"] == one["k"]]
            assert rows
            wanted.append(one | expected(rows, None, end))
        check(found.to_pylist(), wanted)
        # All values need whole windows. Without them, an operator keeps states instead of rows.
        states = {name: AGGS[name] for name in ("held", "held_where", "decayed", "mean_lasted")}
        for aggs in (AGGS, states):
            assert (
                streamed(tables, query, aggs, rng).to_pylist()
                == found.select(["window_start", "window_end", "k", *aggs]).to_pylist()
            )


def streamed(
    tables: list[pa.Table], query: dict[str, Any], aggs: dict[str, Any], rng: np.random.Generator
) -> pa.Table:
    """Push the tables in small parts, and move the operator into a new one halfway."""
    schema, batches = tables[0].schema, []
    operator = Aggregate(schema, **query, aggs=aggs, sources=2)
    cuts = [np.sort(rng.integers(0, one.num_rows + 1, 5)) for one in tables]
    for part in range(6):
        for source, one, at in zip(operator.sources, tables, cuts, strict=True):
            ends = [0, *at.tolist(), one.num_rows]
            source.push(one.slice(ends[part], ends[part + 1] - ends[part]))
        batches += polled(operator)
        if part == 2:
            saved = operator.snapshot()
            operator = Aggregate(schema, **query, aggs=aggs, sources=2)
            operator.restore(saved)
    for source in operator.sources:
        source.close()
    return pa.Table.from_batches(batches + polled(operator), operator.schema)


@pytest.mark.parametrize("prevailing", [False, True])
@pytest.mark.parametrize("where", [None, "left.size <= right.size + 5"])
def test_partners(prevailing, where):
    for seed in range(campaign.tries(3)):
        rng = np.random.default_rng(seed)
        left, right = table(rng, 60), table(rng, 150)
        lower, upper = -15, 6
        query: dict[str, Any] = {
            "on": "ts", "by": "k", "lower": lower, "upper": upper, "where": where,
            "prevailing": prevailing,
        }  # fmt: skip
        found = interval_join(left, right, **query, aggs=AGGS, how="left", threads=1)
        assert interval_join(left, right, **query, aggs=AGGS, threads=3, how="left").equals(found)
        wanted = []
        for one in left.to_pylist():
            start, end = one["ts"] + lower, one["ts"] + upper
            same = [row for row in right.to_pylist() if row["k"] == one["k"] and row["ts"] <= end]
            before = [row for row in same if row["ts"] < start][-1:] if prevailing else []
            rows = before + [row for row in same if row["ts"] >= start]
            if where is not None:
                rows = [row for row in rows if one["size"] <= row["size"] + 5]
            wanted.append(expected(rows, start, end))
        check(found.to_pylist(), wanted)
        assert partners_of_streams(left, right, query).equals(found.combine_chunks())


def partners_of_streams(left: pa.Table, right: pa.Table, query: dict[str, Any]) -> pa.Table:
    """Push a few rows of each side in turn."""
    operator = tg.IntervalJoin(left.schema, right.schema, **query, aggs=AGGS, how="left")
    batches = []
    for at in range(0, right.num_rows, 15):
        operator.right_sources[0].push(right.slice(at, 15))
        operator.left_sources[0].push(left.slice(at * left.num_rows // right.num_rows, 6))
        batches += polled(operator)
    operator.left_sources[0].close()
    operator.right_sources[0].close()
    return pa.Table.from_batches(batches + polled(operator), operator.schema).combine_chunks()


def polled(operator: Any) -> list[pa.RecordBatch]:
    batches = []
    while (batch := operator.poll()) is not None and batch.num_rows:
        batches.append(batch)
    return batches


def test_special_values_and_the_ends_of_time():
    least, most = -(2**63), 2**63 - 1
    rows = pa.table({"ts": [0, 4, 4, 8], "v": [1.0, float("inf"), 2.0, 3.0]})
    aggs = {"held": agg.time_weighted_mean("v"), "decayed": agg.ewm_mean("v", 1)}
    found = aggregate(rows, on="ts", size=10, aggs=aggs).to_pylist()[0]
    # A value that holds for zero time is ignored, even if it is infinite.
    assert (found["held"], found["decayed"]) == (1.8, float("inf"))
    ends = pa.table({"ts": [least, most], "v": [1.0, 3.0]})
    far = interval_join(ends, ends, on="ts", lower=None, upper=most, aggs=aggs, how="left")
    assert far.select(["held", "decayed"]).to_pylist()[1] == {"held": 1.0, "decayed": 3.0}
    equal = pa.table({"ts": [5, 5], "v": [1.0, 7.0]})
    found = interval_join(equal, equal, on="ts", lower=0, upper=0, aggs=aggs)
    assert found["held"].to_pylist() == [7.0, 7.0]
    assert found["decayed"].to_pylist() == [4.0, 4.0]


@pytest.mark.parametrize("most", [1, 7, 64, 65])
def test_the_largest_values_of_long_windows(most):
    """Short lists are computed with a sliding window; longer lists are selected one by one."""
    rng = np.random.default_rng(most)
    count = 3_000
    rows = pa.table(
        {
            "ts": np.sort(rng.integers(0, 500, count)),
            "v": rng.integers(0, 40, count),
            "n": range(count),
        }
    )
    top_n = {"n": agg.top("n", most, by="v")}
    for threads in (1, 3):
        found = aggregate(rows, on="ts", size=100, advance=7, aggs=top_n, threads=threads)
        for one in found.to_pylist()[::5]:
            within = [
                row
                for row in rows.to_pylist()
                if one["window_start"] <= row["ts"] < one["window_end"]
            ]
            assert one["n"] == top(within, most, "n", "v")
    left = rows.slice(0, 40).select(["ts"])
    found = interval_join(left, rows, on="ts", lower=-50, upper=50, aggs=top_n)
    for one, key in zip(found.to_pylist(), left["ts"].to_pylist(), strict=True):
        within = [row for row in rows.to_pylist() if abs(row["ts"] - key) <= 50]
        assert one["n"] == top(within, most, "n", "v")


def test_sums_of_durations_and_booleans():
    large = pa.table({"ts": [1, 1], "d": pa.array([2**62, 2**62], pa.duration("s"))})
    with pytest.raises(TidegateError, match=r"does not fit duration\[s\]; cast .* a coarser unit"):
        aggregate(large, on="ts", size=5, aggs={"d": agg.sum("d")})
    found = aggregate(large, on="ts", size=5, aggs={"d": agg.mean("d")})
    assert found["d"].cast(pa.int64()).to_pylist() == [2**62]
    flags = pa.table({"ts": [1, 1], "b": pa.array([True, None]).dictionary_encode()})
    found = aggregate(flags, on="ts", size=5, aggs={"n": agg.sum("b"), "m": agg.mean("b")})
    assert found.select(["n", "m"]).to_pylist() == [{"n": 1, "m": 1.0}]
    assert found.schema.types[2:] == [pa.int64(), pa.float64()]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: agg.first("v", 0), TidegateError, "n must be from 1 to"),
        (lambda: agg.top("v", "3"), TypeError, "n: expected an integer, got"),
        (lambda: agg.ewm_mean("v", 0), TidegateError, "half_life must be greater than 0, got 0"),
        (lambda: agg.ewm_mean("v", "5m"), TidegateError, "half_life"),
        (lambda: agg.ewm_mean("v", None), TypeError, "write .*ewm_mean"),
        (lambda: agg.Aggregate("top", "v"), ValueError, "write tidegate.agg.top"),
        (lambda: agg.time_weighted_mean("s"), SchemaError, "expected numbers; cast it first"),
        (lambda: agg.sum("s"), SchemaError, "expected numbers, durations or booleans"),
    ],
)
def test_wrong_arguments(wrong, error, message):
    rows = pa.table({"ts": [1], "v": [1.0], "s": ["a"]})
    with pytest.raises(error, match=message):
        aggregate(rows, on="ts", size=5, aggs={"x": wrong()})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: tg.window_join(rows, rows, on="ts", window=5, aggs=AGGS), "interval_join"),
        (lambda rows: interval_join(rows, rows, on="ts", lower=0, upper=None, aggs=AGGS), "upper"),
        (
            lambda rows: interval_join(rows, rows, on="ts", lower=0, upper=tg.left.size, aggs=AGGS),
            "give upper as a duration or an integer",
        ),
    ],
)
def test_joins_without_a_fixed_end(call, message):
    rows = table(np.random.default_rng(1), 9)
    with pytest.raises(TidegateError, match=message):
        call(rows)


def test_command(tmp_path):
    rows = table(np.random.default_rng(4), 80).drop_columns("d")
    pq.write_table(rows, tmp_path / "rows.parquet")
    named = {name: one for name, one in AGGS.items() if "lasted" not in name}
    texts = {
        "held": "time_weighted_mean(v)",
        "held_where": "time_weighted_mean(v) where size > 3",
        "decayed": "ewm_mean(v, 7)",
        "first": "first(v, 2)",
        "last": "last(size, 3) where size > 2",
        "top": "top(v, 2)",
        "top_by": "top(size, 3, s)",
        "all": "sum(b)",
        "share": "mean(b)",
    }
    flags = [part for name, text in texts.items() for part in ("--agg", f"{name}={text}")]
    out = tmp_path / "out.parquet"
    paths = [tmp_path / "rows.parquet", "--on", "ts", "--size", "20", "-o", out]
    assert run("aggregate", *map(str, paths), *flags).exit_code == 0
    wanted = aggregate(rows, on="ts", size=20, aggs=named)
    assert pq.read_table(out).to_pylist() == wanted.to_pylist()
    for text in ("top(v)", "ewm_mean(v)", "top(v, x)"):
        failed = run("aggregate", *map(str, paths), "--agg", f"x={text}")
        assert failed.exit_code == 2
        assert f"expected {text.partition('(')[0]}(column" in failed.output
