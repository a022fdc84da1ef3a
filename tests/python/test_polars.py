"""Joins as steps of lazy polars queries: the rows of tables, whatever comes behind the join."""

from typing import Any

import pytest

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
]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("step", STEPS)
def test_steps_behind_a_join_give_the_rows_of_tables(name, step):
    query = step(lazy(name))
    wanted = step(of_tables(name))
    assert query.collect_schema() == wanted.schema
    assert query.collect().equals(wanted)
    # Once more: a query can be collected again.
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
    # The schema alone reads no row.
    assert len(read) == 1


def test_an_argument_is_refused_before_rows_are_read():
    left, right = pl.LazyFrame(LEFT), pl.LazyFrame(RIGHT)
    with pytest.raises(tidegate.SchemaError, match="there is no column `at`"):
        left.tidegate.interval_join(right, on="at", lower=0, upper=1)
    with pytest.raises(TypeError, match="leave out columns and batch_rows"):
        left.tidegate.interval_join(right, on="ts", lower=0, upper=1, columns=["x"])
    with pytest.raises(TypeError, match="right: expected a polars frame, got a dict"):
        left.tidegate.interval_join(RIGHT, on="ts", lower=0, upper=1)
