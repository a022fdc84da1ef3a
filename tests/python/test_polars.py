"""Joins as steps of lazy Polars queries: the rows of tables, whatever step follows the join."""

import importlib
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

import campaign
import tidegate
from tidegate import agg

pl: Any = pytest.importorskip("polars")

LEFT = {"ts": [1, 5, 9, 20], "end": [3, 6, 9, 30], "k": ["a", "b", None, "a"], "x": [1, 2, 3, 4]}
RIGHT = {"ts": [2, 4, 5, 19], "end": [2, 8, 9, 40], "k": ["a", "b", "b", "a"], "y": [1, 2, 2, 9]}
QUERIES: dict[str, dict[str, Any]] = {
    "interval_join": {"on": "ts", "by": "k", "lower": -2, "upper": 2, "how": "full"},
    "asof_join": {"on": "ts", "by": "k", "tolerance": 3},
    "overlap_join": {"on": ("ts", "end"), "how": "left"},
    "window_join": {"on": "ts", "window": 4, "where": "left.x <= right.y"},
    "band_join": {"on": [("x", "y")], "within": 1, "by": "k", "how": "right"},
}
AGGS = {"n": agg.count(), "most": agg.max("y")}


@pytest.fixture(autouse=True)
def _namespace() -> None:
    import tidegate.polars  # noqa: F401, PLC0415 - needs polars


def lazy(name: str, **more: Any) -> Any:
    left, right = pl.LazyFrame(LEFT), pl.LazyFrame(RIGHT)
    return getattr(left.tidegate, name)(right, **QUERIES[name], **more)


def of_tables(name: str, **more: Any) -> Any:
    tables = pl.DataFrame(LEFT), pl.DataFrame(RIGHT)
    return pl.DataFrame(pl.from_arrow(getattr(tidegate, name)(*tables, **QUERIES[name], **more)))


STEPS = [
    lambda frame: frame,
    lambda frame: frame.select("k"),
    lambda frame: frame.filter(pl.col("x") > 1),
    lambda frame: frame.filter(pl.col("y") == 2).select("x", "ts"),
    lambda frame: frame.filter(pl.col("y").is_null() | (pl.col("x") < pl.col("y"))),
    lambda frame: frame.head(2),
    lambda frame: frame.select(pl.len()),
    lambda frame: frame.group_by("k").len().sort("k"),
    lambda frame: frame.with_columns(z=pl.col("x") + pl.col("y")).select("z").tail(2),
    lambda frame: frame.filter(pl.col("x") > 100),
    # The filter applies to the head; the head is not taken from the filtered rows.
    lambda frame: frame.head(3).filter(pl.col("x") % 2 == 0),
    lambda frame: frame.slice(1, 2).filter(pl.col("x") > 1),
    # No columns are read, but the number of rows matters.
    lambda frame: frame.with_row_index("row").select("row"),
    lambda frame: frame.with_row_index("row").select(pl.len()),
    lambda frame: frame.select(pl.int_range(pl.len()).alias("row")),
]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("step", STEPS)
def test_steps_behind_a_join_give_the_rows_of_tables(name, step):
    query = step(lazy(name))
    wanted = step(of_tables(name))
    assert query.collect_schema() == wanted.schema
    assert query.collect().equals(wanted)
    # A query can be collected repeatedly.
    assert query.collect().equals(wanted)


@pytest.mark.parametrize("wanted", [["n"], ["x", "most"], ["ts"], None])
def test_functions_of_partners(wanted):
    query = {name: value for name, value in QUERIES["interval_join"].items() if name != "how"}
    found = pl.LazyFrame(LEFT).tidegate.interval_join(pl.LazyFrame(RIGHT), **query, aggs=AGGS)
    table = tidegate.interval_join(pl.DataFrame(LEFT), pl.DataFrame(RIGHT), **query, aggs=AGGS)
    expected = pl.DataFrame(pl.from_arrow(table))
    if wanted is not None:
        found, expected = found.select(wanted), expected.select(wanted)
    assert found.collect().equals(expected)


def test_a_join_of_a_join():
    query = {"on": "ts", "lower": -1, "upper": 1}
    first = pl.LazyFrame(LEFT).tidegate.interval_join(pl.DataFrame(RIGHT), **query)
    second = first.filter(pl.col("x") < 4).tidegate.interval_join(
        pl.LazyFrame(RIGHT), **query, suffix="_again"
    )
    assert second.select("x", "y", "y_again").collect().rows() == [
        (1, 1, 1),
        (2, 2, 2),
        (2, 2, 2),
        (2, 2, 2),
        (2, 2, 2),
    ]


def test_the_join_is_told_which_columns_are_read():
    read: list[list[str]] = []

    def spy(batch: Any) -> Any:
        read.append(batch.columns)
        return batch

    left = pl.LazyFrame(LEFT).map_batches(spy)
    pairs = left.tidegate.interval_join(pl.LazyFrame(RIGHT), on="ts", lower=-1, upper=1)
    assert pairs.select("y").collect().height == 4
    assert "PROJECT 1/8 COLUMNS" in pairs.select("y").explain()
    # Resolving the schema reads no rows.
    assert len(read) == 1


def test_an_argument_is_refused_before_rows_are_read():
    left, right = pl.LazyFrame(LEFT), pl.LazyFrame(RIGHT)
    with pytest.raises(tidegate.SchemaError, match="there is no column `at`"):
        left.tidegate.interval_join(right, on="at", lower=0, upper=1)
    with pytest.raises(TypeError, match="omit columns and batch_rows"):
        left.tidegate.interval_join(right, on="ts", lower=0, upper=1, columns=["x"])
    with pytest.raises(TypeError, match=r"a polars frame or a tidegate\.Index, got a dict"):
        left.tidegate.interval_join(RIGHT, on="ts", lower=0, upper=1)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("step", STEPS)
def test_steps_behind_a_join_with_an_index_give_the_rows_of_tables(name, step):
    on = ("ts", "end") if name == "overlap_join" else "ts"
    index = tidegate.Index(pl.DataFrame(RIGHT), on=on, by="k" if "by" in QUERIES[name] else None)
    query = step(getattr(pl.LazyFrame(LEFT).tidegate, name)(index, **QUERIES[name]))
    wanted = step(of_tables(name))
    assert query.collect_schema() == wanted.schema
    assert query.collect().equals(wanted)


def test_a_query_reads_the_rows_that_its_index_has_when_it_is_collected():
    rows = pl.DataFrame({"time": [4], "key": ["a"], "y": [1]})
    index = tidegate.Index(rows, on="time", by="key")
    last = pl.LazyFrame(LEFT).tidegate.asof_join(index, on="ts", by="k").select("y")
    assert last.collect()["y"].to_list() == [None, None, None, 1]
    index.append(pl.DataFrame({"time": [0], "key": ["a"], "y": [2]}))
    assert last.collect()["y"].to_list() == [2, None, None, 1]


def test_names_that_do_not_fit_an_index_are_refused_before_rows_are_read():
    index = tidegate.Index(pl.DataFrame(RIGHT), on="ts", by="k")
    with pytest.raises(tidegate.SchemaError, match="the index is on `ts` by `k`, but the join"):
        pl.LazyFrame(LEFT).tidegate.asof_join(index, on=("ts", "end"), by="k")


Step = Callable[[Any], Any]


def drawn_step(rng: random.Random) -> Step:
    """Choose a random step of a lazy query whose row order is the same in both engines."""
    count, start, col = rng.randrange(5), rng.randrange(-3, 4), pl.col
    small = pl.LazyFrame({"k": ["a", "b", "b"], "w": [1, 2, 3]})
    steps: list[Step] = [
        lambda frame: frame.select("x", "ts", "k"),
        lambda frame: frame.select("k"),
        lambda frame: frame.select(pl.len()),
        lambda frame: frame.select(pl.int_range(pl.len()).alias("x")),
        lambda frame: frame.filter(col("x") > 1),
        lambda frame: frame.filter(col("ts") % 2 == 0),
        lambda frame: frame.filter(col("group") == "m"),
        lambda frame: frame.filter(col("x") == col("x").max().over("k")),
        lambda frame: frame.head(count),
        lambda frame: frame.tail(count),
        lambda frame: frame.slice(start, count),
        lambda frame: frame.with_row_index(f"row{start}"),
        lambda frame: frame.with_row_index("row").select("row"),
        lambda frame: frame.with_columns(z=col("x") + col("ts")),
        lambda frame: frame.with_columns(z=col("x").cum_sum()),
        lambda frame: frame.group_by("k", maintain_order=True).agg(col("x", "ts").sum()),
        lambda frame: frame.join(small, on="k", how="left", maintain_order="left_right"),
        lambda frame: frame.join(small, on="k", how="semi", maintain_order="left"),
        lambda frame: frame.sort("x", "ts", maintain_order=True),
        lambda frame: frame.unique("k", keep="first", maintain_order=True),
        lambda frame: frame.explode("tags"),
        lambda frame: frame.rename({"x": "old"}).with_columns(x=col("old")),
        lambda frame: frame.drop("tags"),
        lambda frame: frame.unnest("pair"),
        lambda frame: pl.concat([frame, frame]),
    ]
    return rng.choice(steps)


def drawn_frame(rng: random.Random, value: str) -> Any:
    times = sorted(rng.choices(range(30), k=rng.randrange(9)))
    columns = {
        "ts": pl.Series(times, dtype=pl.Int64),
        "end": pl.Series([at + rng.randrange(9) for at in times], dtype=pl.Int64),
        "k": pl.Series([rng.choice(["a", "b", "c", None]) for _ in times], dtype=pl.String),
        value: pl.Series([rng.choice([0, 1, 2, 3, None]) for _ in times], dtype=pl.Int64),
        "group": pl.Series([rng.choice("mn") for _ in times], dtype=pl.Enum(["m", "n"])),
        "tags": pl.Series([[*"uv"[: at % 3]] for at in times], dtype=pl.List(pl.Categorical)),
    }
    pairs = [{"p": at, "q": rng.choice("xy")} for at in times]
    pair = pl.Struct({"p": pl.Int64, "q": pl.Categorical})
    return pl.DataFrame(columns | {"pair": pl.Series(pairs, dtype=pair)})


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("name", QUERIES)
def test_drawn_steps_before_and_behind_a_join(name, engine):
    rng = campaign.rng(f"polars {name} {engine}")
    compared, wanted = 0, campaign.tries(12)
    while compared < wanted:
        left, right = drawn_frame(rng, "x"), drawn_frame(rng, "y")
        before = [drawn_step(rng) for _ in range(rng.choice([0, 0, 1, 2]))]
        behind = [drawn_step(rng) for _ in range(rng.randrange(1, 4))]

        def apply(steps: list[Step], frame: Any) -> Any:
            for step in steps:
                frame = step(frame)
            return frame

        try:
            tables = apply(before, left.lazy()).collect(), right
            joined = pl.DataFrame(getattr(tidegate, name)(*tables, **QUERIES[name]).to_reader())
            expected = apply(behind, joined.lazy()).collect()
        except (pl.exceptions.PolarsError, tidegate.SchemaError):
            continue  # This step uses a column that an earlier step dropped.
        join = getattr(apply(before, left.lazy()).tidegate, name)
        found = apply(behind, join(right.lazy(), **QUERIES[name])).collect(engine=engine)
        assert found.equals(expected)
        assert (found.schema, found.height) == (expected.schema, expected.height)
        compared += 1


@pytest.mark.parametrize("columns", ["ts", ["ts", "tags", "pair"], []])
def test_categories_within_lists_and_structs(columns):
    frame = drawn_frame(campaign.rng("categories"), "x")
    last = {"on": "ts", "aggs": {"all": agg.collect("group"), "n": agg.count()}}
    for query in ({"on": "ts"}, {**last, "lower": -5, "upper": 0}):
        name = "interval_join" if "aggs" in query else "asof_join"
        joined = getattr(frame.lazy().tidegate, name)(frame.lazy(), **query)
        expected = pl.DataFrame(getattr(tidegate, name)(frame, frame, **query).to_reader())
        assert joined.collect().equals(expected)
        assert joined.select(columns).collect().equals(expected.select(columns))


def test_an_older_polars_is_refused_by_name(monkeypatch):
    monkeypatch.delitem(sys.modules, "tidegate.polars")
    monkeypatch.setattr("polars.io.plugins.register_io_source", lambda _source: None)
    with pytest.raises(ImportError, match=r"needs polars 2 or later, but this is \d.*; run pip"):
        importlib.import_module("tidegate.polars")
