"""Rolling windows: the rows in each window, the order of results, streams, files and commands."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run
from tidegate import SchemaError, TidegateError, agg, rolling

AGGS = {
    "n": agg.count(),
    "sum": agg.sum("w"),
    "mean": agg.mean("v"),
    "first": agg.first("name"),
    "last": agg.last("w"),
    "median": agg.median("v"),
    "high": agg.max("v", where="w > 3"),
    "all": agg.collect("w"),
}
KEYS = ["a", "b", "c", None]
CLOSED = ["right", "left", "both", "neither"]


def table(draw: random.Random, count: int, span: int, *, in_order: bool = False) -> pa.Table:
    """Create rows with equal times, equal keys and some null values."""
    times = [draw.randrange(span) for _ in range(count)]
    maybe = lambda value: None if draw.random() < 0.2 else value  # noqa: E731 - one line
    return pa.table(
        {
            "ts": pa.array(sorted(times) if in_order else times, pa.int64()),
            "k": pa.array([draw.choice(KEYS) for _ in times], pa.string()),
            "v": pa.array([maybe(draw.random()) for _ in times], pa.float64()),
            "w": pa.array([maybe(draw.randrange(9)) for _ in times], pa.int32()),
            "name": pa.array([maybe(draw.choice("xyz")) for _ in times], pa.string()),
        }
    )


def window(
    rows: list[dict[str, Any]], at: int, size: Any, closed: str, by: str | None
) -> list[int]:
    """Return the rows in the window of a row, in time order."""
    own = [one for one in range(len(rows)) if by is None or rows[one][by] == rows[at][by]]
    own.sort(key=lambda one: (rows[one]["ts"], one))
    if isinstance(size, tg.Rows):
        places = {row: place for place, row in enumerate(own)}
        length = size.count
    else:
        places = {row: rows[row]["ts"] for row in own}
        length = size
    upper, lower = places[at], places[at] - length
    below = lower if closed in {"left", "both"} else lower + 1
    above = upper if closed in {"right", "both"} else upper - 1
    return [row for row in own if below <= places[row] <= above]


def expected(rows: list[dict[str, Any]], inside: list[int]) -> dict[str, Any]:
    """Return the results of the functions over some rows."""
    own = [rows[row] for row in inside]
    values = [row["v"] for row in own if row["v"] is not None]
    ints = [row["w"] for row in own if row["w"] is not None]
    high = [row["v"] for row in own if row["v"] is not None and (row["w"] or 0) > 3]
    middle = sorted(values)[(len(values) - 1) // 2 : len(values) // 2 + 1]
    return {
        "n": len(own),
        "sum": sum(ints) if ints else None,
        "mean": sum(values) / len(values) if values else None,
        "first": own[0]["name"] if own else None,
        "last": own[-1]["w"] if own else None,
        "median": sum(middle) / len(middle) if values else None,
        "high": max(high, default=None),
        "all": [row["w"] for row in own] if own else None,
    }


def size(draw: random.Random) -> Any:
    return draw.choice([draw.randint(1, 40), tg.rows(draw.randint(1, 9))])


def test_windows_are_those_of_a_loop() -> None:
    draw = campaign.rng("rolling")
    for _ in range(campaign.tries(40)):
        given = table(draw, draw.randrange(50), draw.choice([9, 99]), in_order=draw.random() < 0.5)
        rows, by, length = given.to_pylist(), draw.choice([None, "k"]), size(draw)
        closed = draw.choice(CLOSED)
        found = rolling(
            given, on="ts", size=length, by=by, closed=closed, aggs=AGGS, threads=draw.randint(1, 4)
        )
        assert found.select(given.schema.names).equals(given)
        wanted = [expected(rows, window(rows, at, length, closed, by)) for at in range(len(rows))]
        for row, want in zip(found.select([*AGGS]).to_pylist(), wanted, strict=True):
            lists = [one.pop("all") for one in (row, want)]
            assert lists[0] == lists[1]
            assert row == pytest.approx(want), (length, closed, by)


def test_streams_return_the_rows_of_tables() -> None:
    draw = campaign.rng("rolling streams")
    for _ in range(campaign.tries(40)):
        given = table(draw, draw.randrange(60), 60, in_order=True)
        by, length, closed = draw.choice([None, "k"]), size(draw), draw.choice(CLOSED)
        query = {"on": "ts", "size": length, "by": by, "closed": closed, "aggs": AGGS}
        operator = tg.Rolling(given.schema, **query)
        found, at = [], 0
        while at < len(given):
            more = draw.randint(1, 9)
            operator.sources[0].push(given.slice(at, more))
            found += iter(operator.poll, None)
            at += more
            if draw.random() < 0.3:
                saved = operator.snapshot()
                operator = tg.Rolling(given.schema, **query)
                operator.restore(saved)
                assert operator.snapshot() == saved
        operator.sources[0].close()
        found += iter(operator.poll, None)
        wanted = rolling(given, **query)
        assert pa.Table.from_batches(found, wanted.schema).equals(wanted), query


def test_a_long_stream_keeps_only_the_rows_that_windows_need() -> None:
    rows = 20_000
    given = pa.table({"ts": range(rows), "k": [at % 7 for at in range(rows)], "v": [0.1] * rows})
    for length, kept in ((100, 100), (tg.rows(5), 2_200)):
        query = {"on": "ts", "by": "k", "size": length, "aggs": {"sum": agg.sum("v")}}
        operator = tg.Rolling(given.schema, **query)
        found = []
        for start in range(0, rows, 500):
            operator.sources[0].push(given.slice(start, 500))
            found += iter(operator.poll, None)
        assert operator.stats()["state_rows"] <= kept
        operator.sources[0].close()
        found += iter(operator.poll, None)
        assert pa.Table.from_batches(found).equals(rolling(given, **query))


def test_a_row_is_emitted_once_its_window_is_complete() -> None:
    given = pa.table({"ts": [1, 2, 2]})
    lengths = (5, tg.rows(2))
    emitted = []
    for length in lengths:
        for closed in ("right", "left"):
            operator = tg.Rolling(
                given.schema, on="ts", size=length, closed=closed, aggs={"n": agg.count()}
            )
            operator.sources[0].push(given)
            batches = [*iter(operator.poll, None)]
            emitted.append([n for batch in batches for n in batch["n"].to_pylist()])
    # With windows by time, another row at 2 could still fall into the windows that include their
    # last time.
    assert emitted == [[1], [0, 1, 1], [1, 2, 2], [0, 1, 2]]


def test_sources_are_merged_and_late_rows_are_left_out() -> None:
    operator = tg.Rolling(
        pa.schema({"ts": pa.int64()}), on="ts", size=10, aggs={"n": agg.count()}, sources=2
    )
    first, second = operator.sources
    first.push(pa.table({"ts": [1, 4, 3, 8]}))
    second.push(pa.table({"ts": [2, 8]}))
    first.close()
    second.close()
    found = pa.Table.from_batches([*operator])
    assert found.to_pydict() == {"ts": [1, 2, 4, 8, 8], "n": [1, 2, 3, 5, 5]}
    assert operator.late()["ts"].to_pylist() == [3]


def test_a_memory_limit_gives_the_same_rows_in_time_order(tmp_path: Any) -> None:
    draw = campaign.rng("a limit")
    given = table(draw, 3_000, 500)
    pq.write_table(given, tmp_path / "rows.parquet", row_group_size=200)
    ordered = given.take(pa.array(sorted(range(3_000), key=lambda at: given["ts"][at].as_py())))
    for length in (40, tg.rows(6)):
        query = {"on": "ts", "by": "k", "size": length, "aggs": AGGS, "columns": ["ts", "w"]}
        wanted = rolling(ordered, **query)
        assert rolling(tmp_path / "rows.parquet", **query, memory_limit="256MB").equals(wanted)
        reader = tg.rolling_batches(tmp_path / "rows.parquet", **query, batch_rows=100)
        whole = rolling(given, **query)
        assert pa.Table.from_batches(reader).equals(whole)
        assert rolling(str(tmp_path / "rows.parquet"), **query).equals(whole)


def test_frames_have_the_method() -> None:
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    pytest.importorskip("tidegate.polars")
    pytest.importorskip("tidegate.pandas")
    rows = {"ts": [1, 2, 9], "v": [1.0, 2.0, 4.0]}
    query = {"on": "ts", "size": 5, "aggs": {"sum": agg.sum("v")}}
    assert pl.DataFrame(rows).tidegate.rolling(**query)["sum"].to_list() == [1.0, 3.0, 4.0]
    assert pd.DataFrame(rows).tidegate.rolling(**query)["sum"].tolist() == [1.0, 3.0, 4.0]
    lazy = pl.LazyFrame(rows).tidegate.rolling(**query).select("sum").collect()
    assert lazy["sum"].to_list() == [1.0, 3.0, 4.0]


def test_the_command_writes_the_same_rows(tmp_path: Any) -> None:
    given = table(campaign.rng("a command"), 90, 50, in_order=True)
    path = str(tmp_path / "rows.parquet")
    pq.write_table(given, path)
    for text, length in (("7", 7), ("4rows", tg.rows(4))):
        out = str(tmp_path / f"{text}.parquet")
        command = ["rolling", path, "--on", "ts", "--by", "k", "--size", text, "--closed", "left"]
        result = run(*command, "--agg", "n=count()", "--agg", "m=max(v)", "-o", out)
        assert result.exit_code == 0, result.output
        aggs = {"n": agg.count(), "m": agg.max("v")}
        wanted = rolling(given, on="ts", by="k", size=length, closed="left", aggs=aggs)
        assert pq.read_table(out).equals(wanted)


def test_plans_name_the_windows() -> None:
    given = pa.table({"ts": [1], "k": [1]})
    query = {"on": "ts", "by": "k", "aggs": {"n": agg.count()}}
    plan = tg.explain(rolling, given, **query, size=5)
    assert "(t - 5, t] integer, where t is ts" in plan
    assert "null is a group" in plan
    plan = tg.explain(tg.Rolling, given.schema, **query, size=tg.rows(5), closed="left")
    assert "[n - 5, n), where n is the row's number within its key" in plan


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"size": 0}, TidegateError, "write tidegate.rows(n)"),
        ({"size": -3}, TidegateError, "size must not be negative"),
        ({"size": None}, TypeError, "tidegate.rows(n); got <class 'NoneType'>"),
        ({"size": "5m"}, SchemaError, "size is a duration, but the time columns are integers"),
        ({"closed": "none"}, TidegateError, "closed must be one of both, left, right, neither"),
        ({"by": "key"}, SchemaError, "table: there is no column `key`, which `by` names"),
        ({"on": "time"}, SchemaError, "table: there is no column `time`, which `on` names"),
        ({"aggs": {"k": agg.count()}}, SchemaError, "leave the column out of columns"),
        ({"aggs": {"n": agg.sum("x")}}, SchemaError, "table: there is no column `x`"),
        ({"aggs": {}}, TidegateError, "expected at least one function"),
        ({"columns": ["x"]}, SchemaError, "columns: the result has no column `x`"),
        ({"lateness": 3}, TidegateError, "memory_limit"),
        ({"period": 3}, TypeError, "write size=3"),
        ({"window": 20}, TypeError, "write size=tidegate.rows(20); an integer as size is a"),
        ({"min_periods": 1}, TypeError, "every row has a result; add tidegate.agg.count()"),
        ({"center": True}, TypeError, "by interval_join(table, table, lower=..., upper=...,"),
    ],
)
def test_wrong_arguments_are_explained(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    query = {"on": "ts", "size": 5, "aggs": {"n": agg.count()}, **changes}
    with pytest.raises(error) as caught:
        rolling(pa.table({"ts": [1], "k": [2]}), **query)
    assert words in str(caught.value)


def test_a_null_time_is_an_error() -> None:
    with pytest.raises(TidegateError, match="table: column `ts`, row 1: the time is null"):
        rolling(pa.table({"ts": [1, None]}), on="ts", size=5, aggs={"n": agg.count()})
