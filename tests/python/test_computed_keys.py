"""Keys and times that are expressions or struct fields, compared with columns of their values."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
import tidegate.polars
from command_line import run

if TYPE_CHECKING:
    from pathlib import Path

SUMS = {"n": tg.agg.count(), "sum": tg.agg.sum("x")}


def rows_of(seed: int, count: int = 200) -> pa.Table:
    """Return rows whose keys and times are also parts of other columns."""
    draw = random.Random(seed)  # noqa: S311 - test data
    times = sorted(draw.randrange(5 * 86_400) for _ in range(count))
    syms = [draw.choice(["a", "A", "b", None]) for _ in times]
    payload = [
        None if draw.random() < 0.1 else {"sym": sym, "ts": ts}
        for sym, ts in zip(syms, times, strict=True)
    ]
    return pa.table(
        {
            "ts": pa.array([datetime.fromtimestamp(ts, UTC) for ts in times], pa.timestamp("us")),
            "t": times,
            "sym": syms,
            "x": [draw.randrange(10) for _ in times],
            "payload": payload,
            "up": [None if sym is None else sym.upper() for sym in syms],
            "hour": [ts // 3600 % 24 for ts in times],
            "inner": [None if one is None else one["sym"] for one in payload],
        }
    )


@pytest.mark.parametrize("seed", range(2))
def test_an_aggregation_by_an_expression_is_one_by_a_column(seed: int, tmp_path: Path) -> None:
    table = rows_of(seed)
    options: dict[str, Any] = {"on": "t", "size": 50_000, "aggs": SUMS}
    wanted = tg.aggregate(table, by=["up", "hour", "inner"], **options)
    keys = {
        "up": "upper(sym)",
        "hour": tg.row.ts.extract("hour"),
        "inner": tg.row["payload"]["sym"],
    }
    assert tg.aggregate(table, by=keys, **options).to_pylist() == wanted.to_pylist()
    # A list names columns after the text of each expression.
    listed = ["upper(sym)", keys["hour"], "payload.sym"]
    named = tg.aggregate(table, by=listed, **options)
    assert named.schema.names[2:5] == ["upper(sym)", "EXTRACT(hour FROM row.ts)", "payload.sym"]
    assert named.rename_columns(wanted.schema.names).to_pylist() == wanted.to_pylist()
    # Streams, batches and files.
    with tg.Aggregate(table.schema, by=keys, **options) as operator:
        for start in range(0, len(table), 37):
            operator.sources[0].push(table.slice(start, 37))
        operator.sources[0].close()
        assert pa.Table.from_batches(operator).to_pylist() == wanted.to_pylist()
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=50)
    found = tg.aggregate(tmp_path / "rows.parquet", by=keys, memory_limit="256MB", **options)
    assert found.to_pylist() == wanted.to_pylist()
    out = tmp_path / "out.parquet"
    flags = ["--on", "t", "--size", "50000", "--by", "up=upper(sym)"]
    flags += ["--by", "hour=EXTRACT(hour FROM ts)", "--by", "inner=payload.sym"]
    flags += ["--agg", "n=count()", "--agg", "sum=sum(x)"]
    result = run("aggregate", str(tmp_path / "rows.parquet"), *flags, "-o", str(out))
    assert result.exit_code == 0, result.stderr
    assert pq.read_table(out).to_pylist() == wanted.to_pylist()
    lazy = pl.from_arrow(table).lazy().tidegate.aggregate(by=keys, **options).collect()
    assert lazy.to_arrow().to_pylist() == wanted.to_pylist()


def test_the_name_of_a_column_is_never_an_expression() -> None:
    table = rows_of(3)
    odd = table.append_column("upper(sym)", table["x"])
    odd = odd.append_column("payload.sym", table["hour"])
    for name, column in (("upper(sym)", "x"), ("payload.sym", "hour")):
        options: dict[str, Any] = {"on": "t", "size": 90_000, "aggs": SUMS}
        found = tg.aggregate(odd, by=name, **options).rename_columns({name: column})
        assert found.equals(tg.aggregate(odd, by=column, **options))


def test_a_field_of_a_field_is_a_key() -> None:
    rows = [{"a": {"b": {"c": x % 3}}, "ts": x} for x in range(9)]
    found = tg.aggregate(
        pa.Table.from_pylist(rows), on="ts", size=9, by="a.b.c", aggs={"n": SUMS["n"]}
    )
    assert found.select(["a.b.c", "n"]).to_pylist() == [{"a.b.c": key, "n": 3} for key in range(3)]


def test_joins_compute_keys_and_times() -> None:
    left, right = rows_of(6), rows_of(7)
    columns = ["t", "x", "up", "t_right", "x_right"]
    by = [("up", "upper(sym)"), (tg.row.ts.extract("hour"), "hour")]
    times = {"lower": -9_000, "upper": 3_000}
    wanted = tg.interval_join(left, right, on="t", by=["up", "hour"], columns=columns, **times)
    found = tg.interval_join(left, right, on=("t * 1", tg.row.t + 0), by=by, **times)
    every = [*left.schema.names, *(f"{name}_right" for name in right.schema.names)]
    assert found.schema.names == every
    assert found.select(columns).equals(wanted)
    assert len(wanted) > 20
    nearest = tg.asof_join(left, right, on="t", by="up", columns=columns)
    assert tg.asof_join(left, right, on="t", by="upper(sym)", columns=columns).equals(nearest)
    index = tg.Index(right, on="t", by="up")
    assert tg.asof_join(left, index, on="t", by="upper(sym)", columns=columns).equals(nearest)
    bands = tg.band_join(left, right, on="t", within=500, by="up", columns=columns)
    for computed in ([("t + 5", tg.row.t + 5)], {"t + 5": "t + 5"}):
        found = tg.band_join(left, right, on=computed, within=500, by="up", columns=columns)
        assert found.equals(bands)
    batches = tg.interval_join_batches(left, right, on="t", by="upper(sym)", **times)
    whole = tg.interval_join(left, right, on="t", by="upper(sym)", **times)
    assert pa.Table.from_batches(batches).equals(whole)
    assert "upper(row.sym)" in tg.explain(
        tg.interval_join, left, right, on="t", by=tg.row.sym.upper(), **times
    )


def test_rolling_windows_and_times_are_computed() -> None:
    table = rows_of(8)
    options: dict[str, Any] = {"size": 40_000, "aggs": SUMS}
    wanted = tg.rolling(table, on="t", by="up", **options)
    assert tg.rolling(table, on="t + 0", by="upper(sym)", **options).equals(wanted)
    assert tg.rolling(table, on=tg.row.t, by=[tg.row.sym.upper()], **options).equals(wanted)
    found = tg.aggregate([table, table], on="t - 5", by="up", **options)
    moved = table.set_column(1, "t", pa.array([t - 5 for t in table["t"].to_pylist()]))
    assert found.equals(tg.aggregate([moved, moved], on="t", by="up", **options))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: tg.aggregate(t, on="t", size=9, by=3, aggs=SUMS), "by: expected a column name"),
        (
            lambda t: tg.aggregate(t, on="t", size=9, by="upper(simm)", aggs=SUMS),
            "by: the table has no column `simm`",
        ),
        (lambda t: tg.aggregate(t, on="t", size=9, by="1 + 1", aggs=SUMS), "reads no column"),
        (
            lambda t: tg.aggregate(t, on="t", size=9, by="payload.no", aggs=SUMS),
            "`row.payload` has no field `no`; it has `sym`, `ts`",
        ),
        (
            lambda t: tg.aggregate(t, on="t", size=9, by="x.no", aggs=SUMS),
            "`row.x` is int64, which has no fields; expected a struct",
        ),
        (
            lambda t: tg.aggregate(t, on="t", size=9, by={"sum": "upper(sym)"}, aggs=SUMS),
            "the result would have two columns `sum`",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="t", by=tg.row.sym.upper(), lower=0, upper=0, memory_limit="1GB"
            ),
            "leave memory_limit out, or write the values to a column",
        ),
        (
            lambda t: tg.interval_join(t, t, on="t", by=[(tg.right.sym, "sym")], lower=0, upper=0),
            "the left rows have no column of the other side",
        ),
        (
            lambda t: tg.IntervalJoin(
                t.schema, t.schema, on="t", by=tg.row.sym.upper(), lower=0, upper=0
            ),
            "by: only calls on tables accept an expression such as `upper\\(row.sym\\)`",
        ),
        (
            lambda t: tg.IntervalJoin(
                t.schema, t.schema, on=(tg.left.t + 1, "t"), lower=0, upper=0
            ),
            r"on: only calls on tables accept an expression such as `left.t \+ 1`; add a column",
        ),
        (
            lambda t: tg.IntervalJoin(t.schema, t.schema, on="t", by="x * 2", lower=0, upper=0),
            "there is no column `x \\* 2`, which `by` names; only calls on tables accept expr",
        ),
        (
            lambda t: tg.Aggregate(t.schema, on=tg.row.t + 1, size=9, aggs=SUMS),
            r"on: only calls on tables accept an expression such as `row.t \+ 1`; add a column",
        ),
        (
            lambda t: tg.Rolling(t.schema, on="t + 1", size=9, aggs=SUMS),
            "there is no column `t \\+ 1`, which `on` names; only calls on tables accept expr",
        ),
        (lambda _: tg.row["a"][0], "expects the name of a field"),
        (lambda _: (tg.row.a + 1)["b"], "only columns and their fields have fields"),
    ],
)
def test_an_error_names_the_expression(call: Any, message: str) -> None:
    with pytest.raises((TypeError, tg.TidegateError), match=message):
        call(rows_of(9))
