"""The streaming join and its sources: refusals, promises, and memory."""

import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pytest

from tidegate import (
    ClosedError,
    IntervalJoin,
    MemoryLimitError,
    SchemaError,
    Source,
    TidegateError,
    agg,
    explain,
    interval_join,
)

LEFT = pa.table({"ts": [1, 4, 9], "k": ["a", "b", "a"], "l": [1, 2, 3]})
RIGHT = pa.table(
    {"ts": [2, 4, 9], "k": ["a", "b", "a"], "r": [10, 20, 30], "extra": [0.5, 1.5, 2.5]}
)
QUERY = {"on": "ts", "by": "k", "lower": -1, "upper": 1}


def new(**arguments: object) -> IntervalJoin:
    return IntervalJoin(LEFT.schema, RIGHT.schema, **(QUERY | arguments))


def taken(join: IntervalJoin, *names: str) -> list[tuple[object, ...]]:
    """Return columns of all final results; by default `l` and `r`."""
    names = names or ("l", "r")
    batches = iter(join.poll, None)
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"sources": (0, 1)}, TidegateError, "sources must be from 1 to 32768, got 0"),
        ({"sources": 2}, TypeError, r"sources: expected a pair \(left sources, right sources\)"),
        ({"sources": (1,)}, TypeError, r"sources: expected a pair"),
        ({"sources": (1, -1)}, TidegateError, "sources must be from 1 to 32768, got -1"),
        ({"sources": (1, 1.5)}, TypeError, "sources"),
        ({"lateness": -1}, TidegateError, "lateness must not be negative, got -1"),
        ({"lateness": (0, -1)}, TidegateError, "lateness must not be negative, got -1"),
        ({"lateness": "1s"}, SchemaError, "lateness is a duration, but the time columns are int"),
        ({"lateness": (1, 2, 3)}, TypeError, "lateness"),
        ({"parallelism": "both"}, TidegateError, "parallelism"),
        ({"load_factor": 0.9}, TidegateError, "load_factor must be 1 or more, got 0.9"),
        ({"load_factor": float("nan")}, TidegateError, "load_factor must be .* got NaN"),
        ({"load_factor": "1.5"}, TypeError, "load_factor: expected a number, got .*str"),
        ({"load_factor": 2, "parallelism": "key"}, TidegateError, 'parallelism="hybrid"'),
        (
            {"load_factor": 2, "parallelism": "scale-oij"},
            TidegateError,
            "a schedule that has no load factor",
        ),
        ({"load_factor": 2, "ordered": False}, TidegateError, "load_factor: with ordered=False"),
        ({"load_factor": 2, "aggs": {"n": agg.count()}}, TidegateError, "load_factor: with aggs"),
        ({"threads": 0}, TidegateError, "threads must be from 1 to 512, got 0"),
        ({"memory_limit": -1}, TidegateError, "memory_limit must be at least 0, got -1"),
        ({"memory_limit": 1.5}, TypeError, "memory_limit"),
        ({"ordered": 1}, TypeError, "ordered"),
        ({"on": "at"}, SchemaError, "left: there is no column `at`, which `on` names"),
        ({"by": "l"}, SchemaError, "right: there is no column `l`"),
        ({"lower": 2}, TidegateError, "lower must not be greater than upper"),
        ({"how": "outer"}, TidegateError, "how"),
        ({"where": "left.l < right.z"}, SchemaError, "z"),
        ({"columns": ["z"]}, SchemaError, "z"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        new(**arguments)


@pytest.mark.parametrize("schema", [5, None, [1]])
def test_wrong_schemas_are_refused(schema: object) -> None:
    with pytest.raises(TypeError, match="right: expected a table"):
        IntervalJoin(LEFT.schema, schema, **QUERY)


def test_a_side_may_stay_empty() -> None:
    join = new(how="left")
    join.right_sources[0].close()
    join.left_sources[0].push(LEFT)
    join.left_sources[0].close()
    assert taken(join) == [(1, None), (2, None), (3, None)]


def test_schemas_may_come_from_any_arrow_data() -> None:
    join = IntervalJoin(LEFT, RIGHT.to_pandas(), **QUERY)
    assert join.schema == interval_join(LEFT, RIGHT, **QUERY).schema


def test_a_join_says_what_it_does() -> None:
    arguments = {"sources": (2, 1), "parallelism": "hybrid", "threads": 3, "pin": False}
    arguments |= {"memory_limit": 99, "where": "left.l < right.r"}
    text = new(**arguments).explain()
    assert text == explain(IntervalJoin, LEFT, RIGHT, **QUERY, **arguments)
    assert text.splitlines() == [
        "interval_join (inner)",
        "  time       right.ts - left.ts in [-1, 1] integer",
        "  key        k",
        "  where      left.l < right.r, on blocks of candidate pairs",
        "  balance    keys are split once one thread performs 1.2 times the mean number of comparisons",  # noqa: E501 - a line of the text
        "  sources    2 left, 1 right",
        "  algorithm  PPOIJ, each key on as many threads as its share of the comparisons needs (HP)",  # noqa: E501 - a line of the text
        "  index      for each key and side, the rows that later rows may match, in time order",
        "  threads    3",
        "  memory     rows until none can match them any more, plus 40 bytes per row; at most 99 bytes",  # noqa: E501 - a line of the text
        "  output     6 columns, a pair at the position of its later row, once no source can deliver an earlier row",  # noqa: E501 - a line of the text
    ]
    with pytest.raises(SchemaError, match="there is no column `at`"):
        explain(IntervalJoin, LEFT, RIGHT, **(QUERY | {"on": "at"}))


def test_a_join_says_that_threads_read_each_other_s_lists() -> None:
    lines = new(parallelism="scale-oij", threads=3).explain().splitlines()
    [algorithm] = [line for line in lines if line.startswith("  algorithm  Scale-OIJ, each row")]
    assert "team" in algorithm
    assert any(line.startswith("  index      skip lists of each thread") for line in lines)


# Promises


def test_a_source_that_says_nothing_holds_all_back() -> None:
    join = new(sources=(1, 2), how="full")
    left, first, silent = join.sources
    left.push(LEFT)
    first.push(RIGHT)
    assert taken(join) == []
    assert join.stats()["watermark"] is None
    silent.advance(5)
    # The pairs at 4 and at 1 and 2 are final, but not the one at 9.
    assert taken(join) == [(1, 10), (2, 20)]
    assert join.stats()["watermark"] == 5
    silent.close()
    left.close()
    assert taken(join) == [(3, 30)]


def test_a_promise_gives_rows_without_a_partner() -> None:
    join = new(how="left")
    left, quiet = join.sources
    left.push(LEFT)
    quiet.advance(5)
    assert taken(join) == [(1, None)]
    quiet.advance(6)
    assert taken(join) == [(2, None)]
    quiet.advance(10)
    # The left source may still push rows at 9, but none of these pairs with this row.
    assert taken(join) == []
    left.advance(11)
    quiet.advance(11)
    assert taken(join) == [(3, None)]
    assert join.stats()["state_rows"] == 0


def test_a_promise_stays_when_a_smaller_one_is_given() -> None:
    join = new()
    left, _ = join.sources
    left.advance(5)
    left.advance(-3)
    assert join.stats()["sources"][0]["watermark"] == 5
    left.push(LEFT)
    assert join.late()["l"].to_pylist() == [1, 2]


def test_promises_are_in_the_unit_of_their_own_column() -> None:
    seconds = pa.schema([("ts", pa.timestamp("s"))])
    millis = pa.schema([("at", pa.timestamp("ms"))])
    join = IntervalJoin(
        seconds, millis, on=("ts", "at"), lower="-1s", upper="1s", lateness="1500ms"
    )
    left, fine = join.sources
    left.advance(10)
    fine.advance(11_000)
    assert [source["watermark"] for source in join.stats()["sources"]] == [10_000, 11_000]
    left.advance(dt.datetime.fromisoformat("1970-01-01T00:00:12"))
    fine.advance(np.datetime64(12_345, "ms"))
    assert [source["watermark"] for source in join.stats()["sources"]] == [12_000, 12_345]
    left.push(pa.table({"ts": pa.array([20, 11], pa.timestamp("s"))}))
    late = join.late()
    assert late.schema.field("late_watermark").type == pa.timestamp("ms")
    assert late.to_pylist() == [
        {
            "late_side": "left",
            "late_source": 0,
            "late_position": 1,
            "late_watermark": dt.datetime.fromisoformat("1970-01-01T00:00:18.500"),
            "ts": dt.datetime.fromisoformat("1970-01-01T00:00:11"),
            "at": None,
        }
    ]


def test_a_late_flood_costs_nothing_but_the_late_rows() -> None:
    join = new(sources=(2, 1))
    one, other, right_source = join.sources
    one.push(pa.table({"ts": [1_000], "k": ["a"], "l": [0]}))
    flood = pa.table({"ts": list(range(900)), "k": ["a"] * 900, "l": [0] * 900})
    for _ in range(20):
        one.push(flood)
    other.push(flood)
    right_source.push(pa.table({"ts": [500], "k": ["a"], "r": [1], "extra": [0.0]}))
    for source in join.sources:
        source.close()
    assert taken(join, "ts") == [(499,), (500,), (501,)]
    stats = join.stats()
    assert (stats["rows_in"], stats["rows_late"]) == (1 + 21 * 900 + 1, 20 * 900)
    assert join.late().num_rows == 20 * 900
    assert join.late().num_rows == 0
    assert join.stats()["memory"] == 0


# Rows


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (RIGHT, "the rows have no column `l`, which is int64; they have `ts`, `k`, `r`"),
        (LEFT.select(["ts", "k"]), "the rows have no column `l`, which is int64; they have"),
        (
            LEFT.set_column(2, "l", LEFT["l"].cast(pa.string())),
            "column `l` is string, expected int64",
        ),
    ],
)
def test_rows_of_another_schema_are_refused(wrong: pa.Table, message: str) -> None:
    join = new()
    with pytest.raises(SchemaError, match=f"left source 0: {message}"):
        join.left_sources[0].push(wrong)
    assert join.stats()["rows_in"] == 0


@pytest.mark.parametrize("wrong", [None, 5, "rows", ({"ts": 1},)])
def test_what_is_no_arrow_data_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="data: expected Arrow data"):
        new().left_sources[0].push(wrong)


def test_a_null_time_is_refused_and_nothing_of_the_push_is_taken() -> None:
    join = new()
    (source,) = join.right_sources
    source.push(RIGHT)
    nulls = pa.Table.from_pylist([{"ts": 10, "k": "a"}, {"k": "a"}], RIGHT.schema)
    with pytest.raises(TidegateError, match="right source 0: column `ts`, row 4: the time is null"):
        source.push(nulls)
    assert join.stats()["rows_in"] == 3
    source.push(nulls[:1])
    assert join.stats()["sources"][1]["rows_in"] == 4


def test_sides_may_have_other_columns_in_other_places() -> None:
    left = pa.table({"a": [[1]], "b": [{"x": 1}], "k": ["a"], "ts": [5]})
    other = pa.table({"ts": [5], "k": pa.array(["a"], pa.dictionary(pa.int8(), pa.string()))})
    join = IntervalJoin(left.schema, other.schema, on="ts", by="k", lower=0, upper=0, how="full")
    join.left_sources[0].push(left)
    join.right_sources[0].push(other)
    for source in join.sources:
        source.close()
    assert pa.Table.from_batches(join).to_pylist() == (
        interval_join(left, other, on="ts", by="k", lower=0, upper=0, how="full").to_pylist()
    )


def test_an_error_of_the_condition_stays() -> None:
    join = new(where="10 / (right.r - 20) < 0", how="left")
    left, other = join.sources
    left.push(LEFT)
    other.push(RIGHT)
    left.close()
    other.close()
    # Earlier pairs might be lost, and later ones would look like the complete result.
    for call in (join.poll, join.poll, lambda: next(join)):
        with pytest.raises(TidegateError, match=r"where .*: Divide by zero"):
            call()
    assert join.stats()["rows_in"] == 6
    join.close()
    with pytest.raises(ClosedError, match="the join is closed"):
        join.poll()


# Lifetime


def test_a_closed_source_takes_nothing() -> None:
    join = new()
    with join.left_sources[0] as source:
        source.push(LEFT)
    source.close()
    for call in (lambda: source.push(LEFT), lambda: source.advance(99)):
        with pytest.raises(
            ClosedError, match="left source 0 is closed: rows cannot follow its end"
        ):
            call()
    join.right_sources[0].push(RIGHT)
    join.right_sources[0].close()
    assert [row for batch in join for row in batch["r"].to_pylist()] == [10, 20, 30]
    assert join.poll() is None
    with pytest.raises(StopIteration):
        next(join)


def test_a_closed_join_holds_nothing() -> None:
    with new(how="full") as join:
        left, other = join.sources
        left.push(LEFT)
        other.push(RIGHT)
        assert taken(join) == [(1, 10), (2, 20)]
        assert join.stats()["memory"] > 0
    join.close()
    assert join.stats()["memory"] == 0
    assert join.stats()["rows_in"] == 6
    assert join.late().num_rows == 0
    for call in (join.poll, lambda: next(join)):
        with pytest.raises(ClosedError, match="the join is closed"):
            call()
    with pytest.raises(ClosedError, match="right source 0 is closed"):
        other.push(RIGHT)


def test_a_join_goes_before_its_sources() -> None:
    join = new()
    sources = join.sources
    del join
    for source in sources:
        source.advance(5)
        source.close()


# Memory


def fill(source: Source, table: pa.Table, text: str) -> int:
    """Push the table until the limit is reached, and return the number of accepted rows."""
    for times in range(10_000):
        try:
            source.push(table)
        except MemoryLimitError as error:
            assert re.search(text, str(error))  # noqa: PT017 - any of the pushes may raise
            return times * table.num_rows
    pytest.fail("the limit was never reached")


def test_nothing_is_lost_at_the_memory_limit() -> None:
    join = new(how="left", memory_limit=20_000)
    left, other = join.sources
    sevens = pa.table({"ts": [7] * 3, "k": ["a"] * 3, "l": [0] * 3})
    text = r"left source 0: 3 rows need \d+ bytes, but \d+ of memory_limit = 20000 are held; poll, "
    pushed = fill(left, sevens, text)
    assert 0 < pushed < 20_000 / 40
    assert join.stats()["memory"] <= 20_000
    assert taken(join) == []
    # As time advances, there is room again.
    other.advance(100)
    left.advance(100)
    assert len(taken(join)) == pushed
    assert join.stats()["memory"] == 0
    left.push(pa.table({"ts": [100], "k": ["a"], "l": [5]}))
    left.close()
    other.close()
    assert taken(join) == [(5, None)]


def test_kept_rows_count_until_they_are_let_go_of() -> None:
    join = IntervalJoin(LEFT.schema, RIGHT.schema, on="ts", by="k", lower=-1_000, upper=0)
    left, other = join.sources
    for first in range(0, 100_000, 100):
        ts = list(range(first, first + 100))
        left.push(pa.table({"ts": ts, "k": ["a"] * 100, "l": ts}))
        other.push(pa.table({"ts": ts, "k": ["b"] * 100, "r": ts, "extra": [0.0] * 100}))
        assert taken(join) == []
    stats = join.stats()
    # Right rows stay for 1 000 steps, left rows not at all; both are removed piece by piece.
    assert 1_000 <= stats["state_rows"] <= 3_000
    assert stats["memory"] < 1_000_000
    assert stats["state_bytes"] < 1_000_000


def test_keys_that_fell_silent_are_forgotten() -> None:
    join = IntervalJoin(LEFT.schema, RIGHT.schema, on="ts", by="k", lower=0, upper=5, how="full")
    left, other = join.sources
    sizes = []
    for first in range(0, 200_000, 1_000):
        ts = list(range(first, first + 1_000))
        left.push(pa.table({"ts": ts, "k": [f"key {n}" for n in ts], "l": ts}))
        other.advance(first + 1_000)
        assert len(taken(join)) <= 1_010
        sizes.append(join.stats()["state_bytes"])
    assert max(sizes[100:]) <= 2 * max(sizes[:20])
