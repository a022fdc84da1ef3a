"""Skewed data: no task receives more than 1.3 times its share of the rows, including copies.

The tests count the rows that are sent to each partition, and do not measure time.
"""

import functools

import numpy as np
import pyarrow as pa
import pytest

import spark_session
from cases import grid, more
from tidegate import agg
from tidegate.spark.driver import division
from tidegate.spark.plan.aggregate import AggregatePlan
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.pack import LEFT, RIGHT

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, KEYS, PARTITIONS = 20_000, 2_000, 8
MOST = 1.3
KINDS = ["self-similar", "half on one key"]


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


@pytest.fixture(autouse=True)
def as_of_more_rows(monkeypatch):
    """Sample 1,200 rows of a side, as if it had three times as many rows."""
    monkeypatch.setattr(division, "FRACTION", 0.06)


def keys(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Draw keys, self-similar with h = 0.2: 80 % of the rows, recursively, have 20 % of the keys.

    Or draw uniform keys, except one key for half of the rows.
    """
    uniform = rng.random(ROWS)
    if kind == "self-similar":
        return (KEYS * uniform ** (np.log(0.2) / np.log(0.8))).astype(np.int64)
    return np.where(rng.random(ROWS) < 0.5, 7, (KEYS * uniform).astype(np.int64))


@pytest.fixture(scope="module")
def sides(spark):
    """Make both sides of skewed keys, once for each kind of skew."""

    @functools.cache
    def made(kind: str):
        frames = []
        for side in (LEFT, RIGHT):
            rng = np.random.default_rng(side)
            table = pa.table(
                {
                    "k": keys(rng, kind),
                    "x": keys(rng, kind) / 8,
                    "y": rng.random(ROWS),
                    "ts": pa.array(rng.integers(0, 10**9, ROWS), pa.timestamp("us", "UTC")),
                }
            )
            frames.append(spark.createDataFrame(table).repartition(4).cache())
        return frames

    return made


def share(packs) -> float:
    """Return the number of rows in the fullest partition, as a multiple of the mean."""
    rows = np.zeros(PARTITIONS)
    for pack in packs.toArrow().to_pylist():
        rows[pack["partition"]] += pa.ipc.open_stream(pack["rows"]).read_all().num_rows
    assert rows.sum() >= ROWS
    return rows.max() / rows.mean()


def packs(plan: Plan):
    layout = division.of_join(plan)
    return plan.packed(LEFT, layout).union(plan.packed(RIGHT, layout))


def query(function: str, *, how: str = "inner", **arguments) -> SparkQuery:
    return SparkQuery.of(function, {**arguments, "how": how})


JOINS = {
    "interval join": query("interval_join", on="ts", by="k", lower="-100ms", upper="100ms"),
    "interval join without a key": query("interval_join", on="ts", lower="-1ms", upper="1ms"),
    "window join": query("window_join", on="ts", by="k", window="1s", how="full"),
    "band join": query("band_join", on="x", within=0.5),
    "band join heavy in key and value": query("band_join", on="x", within=0.5, by="k"),
    "band join with a key": query("band_join", on="y", within=0.01, by="k", how="left"),
}


@grid(
    join=[
        "interval join",
        "band join",
        "band join heavy in key and value",
        *more("interval join without a key", "window join", "band join with a key"),
    ],
    kind=KINDS,
)
def test_tasks_of_joins_are_even(sides, join, kind):
    plan = Plan.of(*sides(kind), JOINS[join], partitions=PARTITIONS)
    assert share(packs(plan)) <= MOST


@grid(by=["k", *more(None)], kind=["half on one key", *more("self-similar")])
def test_tasks_of_aggregations_are_even(sides, by, kind):
    windows = {"size": "1s", "advance": "500ms", "aggs": {"mean": agg.mean("x")}}
    plan = AggregatePlan.of(sides(kind), on="ts", by=by, **windows, partitions=PARTITIONS)
    assert share(plan.packed(division.of_aggregation(plan))) <= MOST


@grid(join=["interval join", *more("window join")], kind=["half on one key", *more(KINDS[0])])
def test_buckets_of_keys_alone_are_not(sides, join, kind):
    plan = Plan.of(*sides(kind), JOINS[join], partitions=PARTITIONS, parallelism="key")
    assert share(packs(plan)) > MOST
