"""Expressions in place of columns: the same results as for a column that was computed before."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run
from tidegate import Aggregate, TidegateError, agg, aggregate, interval_join, row

QUERY = {"on": "ts", "by": "k", "size": 40, "advance": 15}


def quotes(seed: int, count: int = 500) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.sort(rng.integers(0, 900, count)),
            "k": rng.integers(0, 4, count),
            "bid": pa.array(rng.random(count), mask=rng.random(count) < 0.1),
            "ask": rng.random(count),
            "size": rng.integers(1, 50, count),
            "a column": rng.integers(-9, 9, count),
        }
    )


def computed(rows: pa.Table) -> pa.Table:
    """Add the columns that the expressions compute."""
    mid = pc.divide(pc.add(rows["bid"], rows["ask"]), 2.0)
    rows = rows.append_column("mid", mid)
    rows = rows.append_column("value", pc.multiply(rows["ask"], rows["size"].cast(pa.float64())))
    rows = rows.append_column("twice", pc.multiply(rows["a column"], 2))
    return rows.append_column("is_large", pc.greater(rows["size"], 20))


MID = (row.bid + row.ask) / 2
OURS = {
    "mean": agg.mean(MID),
    "text": agg.sum("(bid + ask) / 2"),
    "last": agg.last(MID, where=row.size > 9),
    "weighted": agg.weighted_mean(MID, "ask * size"),
    "most": agg.arg_max(row["a column"] * 2, by=MID),
    "large": agg.any(row.size > 20),
    "sum": agg.sum('"a column" * 2'),
    "n": agg.count(MID),
    "plain": agg.max(row.ask),
    "quoted": agg.min(row["a column"]),
}
THEIRS = {
    "mean": agg.mean("mid"),
    "text": agg.sum("mid"),
    "last": agg.last("mid", where="size > 9"),
    "weighted": agg.weighted_mean("mid", "value"),
    "most": agg.arg_max("twice", by="mid"),
    "large": agg.any("is_large"),
    "sum": agg.sum("twice"),
    "n": agg.count("mid"),
    "plain": agg.max("ask"),
    "quoted": agg.min("a column"),
}
OF_ALL_VALUES = ({"median": agg.median(MID)}, {"median": agg.median("mid")})


@pytest.mark.parametrize("threads", [1, 3])
def test_tables(threads):
    for seed in range(campaign.tries(4)):
        rows = quotes(seed)
        for ours, theirs in ((OURS, THEIRS), OF_ALL_VALUES):
            found = aggregate([rows, rows], **QUERY, aggs=ours, threads=threads)
            wanted = aggregate([computed(rows)] * 2, **QUERY, aggs=theirs)
            assert found.to_pylist() == wanted.to_pylist()
            assert found.schema.types == wanted.schema.types


@pytest.mark.parametrize(("ours", "theirs"), [(OURS, THEIRS), OF_ALL_VALUES])
def test_streams(ours, theirs):
    rows = quotes(5)
    operator = Aggregate(rows.schema, **QUERY, aggs=ours)
    found = []
    for first in range(0, rows.num_rows, 90):
        operator.sources[0].push(rows.slice(first, 90))
        found += [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
        state = operator.snapshot()
        operator = Aggregate(rows.schema, **QUERY, aggs=ours)
        operator.restore(state)
    operator.sources[0].close()
    found += [row for batch in operator for row in batch.to_pylist()]
    assert found == aggregate(computed(rows), **QUERY, aggs=theirs).to_pylist()


def test_partners_of_joins():
    left, right = quotes(6, 80), quotes(7)
    query: dict[str, Any] = {"on": "ts", "by": "k", "lower": -60, "upper": 0}
    of_right = {
        "mean": agg.mean((tg.right.bid + tg.right.ask) / 2),
        "text": agg.sum("(right.bid + ask) / 2"),
        "last": agg.last("(bid + ask) / 2"),
        "median": agg.median(MID),
        "n": agg.count(MID),
    }
    theirs = {name: agg.Aggregate(one.function, "mid") for name, one in of_right.items()}
    found = interval_join(left, right, **query, aggs=of_right)
    wanted = interval_join(left, computed(right), **query, aggs=theirs)
    assert found.to_pylist() == wanted.to_pylist()


def test_files_tasks_and_the_command(tmp_path):
    rows = quotes(8, 2_000)
    path, out = tmp_path / "quotes.parquet", tmp_path / "out.parquet"
    pq.write_table(rows, path, row_group_size=100)
    aggs = {"mid": agg.mean(MID), "v": agg.weighted_mean("coalesce(bid, ask)", "ask * size")}
    wanted = aggregate(rows, **QUERY, aggs=aggs)
    assert (
        aggregate(path, **QUERY, aggs=aggs, memory_limit="256MB").to_pylist() == wanted.to_pylist()
    )
    plan = tg.tasks(tg.aggregate, path, **QUERY, aggs=aggs, target=9_000)
    assert len(plan.tasks) > 1
    found = [batch for task in plan.tasks for batch in task.run()]
    assert pa.Table.from_batches(found, plan.schema).to_pylist() == wanted.to_pylist()
    result = run(
        *("aggregate", str(path), "--on", "ts", "--by", "k", "--size", "40", "--advance", "15"),
        *("--agg", "mid=mean((bid+ask)/2)"),
        *("--agg", "v=weighted_mean(coalesce(bid, ask), ask * size)", "-o", str(out)),
    )
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).to_pylist() == wanted.to_pylist()


def test_a_column_with_the_text_of_an_expression_is_a_column():
    rows = pa.table({"ts": [1], "x": [2], "(x + x)": [7]})
    assert aggregate(rows, on="ts", size=5, aggs={"s": agg.sum("(x + x)")})["s"].to_pylist() == [7]


def test_a_row_that_cannot_be_computed_halts_a_stream_and_fails_a_table():
    rows = pa.table({"ts": [1, 2, 3], "x": [6, 0, 2]})
    query = {"on": "ts", "size": 2, "aggs": {"s": agg.sum("6 / x"), "n": agg.count()}}
    with pytest.raises(TidegateError, match=r"aggs `6 / row.x`: Divide by zero"):
        aggregate(rows, **query)
    operator = Aggregate(rows.schema, **query)
    operator.sources[0].push(rows)
    operator.sources[0].close()
    with pytest.raises(TidegateError, match=r"aggs `6 / row.x`: Divide by zero"):
        operator.poll()
    operator.skip()
    found = [(row["s"], row["n"]) for batch in operator for row in batch.to_pylist()]
    assert found == [(1, 1), (3, 2)]


ROWS = quotes(0, 9)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (agg.sum("biid"), "stream: there is no column `biid`, which `aggs` names; .* mean `bid`"),
        (
            agg.sum("biid + 1"),
            "aggs: the table has no column `biid`; it has",
        ),
        (agg.sum("bid +"), r"aggs `bid \+`: Expected: an expression"),
        (agg.sum("left.bid + 1"), "functions aggregate right rows; write right.bid"),
        (agg.sum("1 + 1"), r"aggs: `1 \+ 1` reads no column; name a column in it"),
        (agg.var("bid > 3"), "`s`: var of column `bid > 3` of type bool: expected numbers"),
    ],
)
def test_what_is_refused(function, message):
    with pytest.raises(TidegateError, match=message):
        aggregate(ROWS, on="ts", size=5, aggs={"s": function})


def test_a_plan_shows_expressions():
    shown = tg.explain(tg.aggregate, ROWS, on="ts", size=5, aggs={"m": agg.mean(MID)})
    assert "aggregates m = mean((row.bid + row.ask) / 2)" in shown
