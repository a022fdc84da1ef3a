"""Joins on Spark with several lookups or a limited number of pairs per left row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import spark_session
import tidegate
import tidegate.spark
from spark_calls import LEFT, RIGHT, counted
from tidegate import TidegateError
from tidegate.spark.driver import division, whole
from tidegate.spark.query.schema import collected

pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = ["ts", "k", "at", "x"]
SOME = LEFT.select([*NAMES, "a"]).slice(0, 600).rename_columns(["ts", "k", "time", "x", "a"])
# Right rows with equal times are ordered by value on Spark.
OTHERS = (
    RIGHT.select([*NAMES, "b"])
    .slice(0, 500)
    .rename_columns(["ts", "k", "time", "x", "b"])
    .sort_by([("ts", "ascending"), ("k", "ascending"), ("x", "ascending"), ("b", "ascending")])
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("asof_join", {"on": "ts", "at": [0, 40, -300], "parallelism": "key"}),
    ("asof_join", {"on": "ts", "at": [5, -9], "tolerance": 70, "long": True, "how": "inner"}),
    ("asof_join", {"on": "time", "at": ["10s", "-1m"], "long": True, "strategy": "nearest"}),
    ("asof_join", {"on": "ts", "n": 3, "where": "right.b > left.a", "strategy": "forward"}),
    ("asof_join", {"on": "ts", "n": 2, "tolerance": 300, "parallelism": "time"}),
    ("asof_join", {"on": "ts", "strategy": "interpolate", "parallelism": "broadcast"}),
    ("interval_join", {"lower": -300, "upper": 300, "limit": 2, "order": "nearest"}),
    ("interval_join", {"lower": -90, "upper": 40, "limit": 1, "how": "left", "order": "last"}),
]


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """Return the DataFrames, none of which is small enough to be sent in full."""
    session = spark_session.start()
    monkeypatch.setattr(division, "FRACTION", 1.0)
    monkeypatch.setattr(whole, "LIMIT", 0)
    monkeypatch.setattr(whole, "_SURE", 0)
    return session.createDataFrame(SOME), session.createDataFrame(OTHERS)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_frames_have_the_rows_of_tables(frames: tuple[Any, Any], number: int) -> None:
    function, call = CALLS[number]
    call = {"on": "ts", "by": "k", **call}
    found = collected(getattr(tidegate.spark, function)(*frames, **call))
    call.pop("parallelism", None)
    wanted = getattr(tidegate, function)(SOME, OTHERS, **call)
    assert found.column_names == wanted.column_names
    assert counted(found.cast(wanted.schema)) == counted(wanted)


def test_files_and_an_index(frames: tuple[Any, Any], tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("left.parquet", "right.parquet")]
    for file, rows in zip(files, (SOME, OTHERS), strict=True):
        pq.write_table(rows, file, row_group_size=100)
    call: dict[str, Any] = {"on": "ts", "by": "k", "at": [3, -20], "how": "inner", "long": True}
    wanted = tidegate.asof_join(SOME, OTHERS, **call)
    index = tidegate.Index(OTHERS, on="ts", by="k")
    index.save(tmp_path / "right.index")
    opened = tidegate.open_index(tmp_path / "right.index")
    for sides in [(frames[0], opened), tuple(files)]:
        found = collected(tidegate.spark.asof_join(*sides, **call))
        assert counted(found.cast(wanted.schema)) == counted(wanted)


def test_what_spark_does_not_support_is_refused(frames: tuple[Any, Any]) -> None:
    with pytest.raises(TidegateError, match="how='full' returns right rows that no left row keeps"):
        tidegate.spark.interval_join(*frames, on="ts", lower=0, upper=1, limit=1, how="full")
    with pytest.raises(TidegateError, match=r"'bins' is not available.*limit the pairs"):
        tidegate.spark.interval_join(
            *frames, on="ts", lower=0, upper=1, limit=1, parallelism="bins"
        )
    rates = frames[0].sparkSession.readStream.format("rate").load()
    streams = [rates.withWatermark("timestamp", "1 minute").alias(name) for name in ("a", "b")]
    with pytest.raises(TidegateError, match="at: a join of streams looks up partners at the time"):
        tidegate.spark.asof_join(*streams, on="timestamp", at=["1s"])
