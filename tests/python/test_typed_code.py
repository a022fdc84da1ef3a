"""Typed code that uses tidegate: a type checker accepts tables and rejects other values."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

HEAD = """
from datetime import timedelta
from pathlib import Path
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import tidegate as tg
import tidegate.pandas
import tidegate.polars
from tidegate.types import Bound, JoinStats, OperatorStats, Table

table: Table = {"ts": [1, 2]}
"""

ACCEPTED = """
tg.interval_join(table, "a.parquet", on="ts", lower=0, upper=1)
tg.interval_join(Path("a.parquet"), ["a.csv", "b.csv"], on="ts", lower="-5s", upper=None)
tg.interval_join(pa.table({}), ds.dataset("days"), on="ts", lower=timedelta(0), upper=timedelta(1))
tg.asof_join(pq.ParquetFile("a.parquet"), {"ts": np.array([1])}, on="ts")
tg.asof_join(tg.csv("a.csv", types={"user": "string"}), table, on="ts")
tg.aggregate([table, "b.parquet"], on="ts", size="1m", aggs={"n": tg.agg.count()})
tg.merge(["a.csv", table], on="ts")
recent: tg.Index = tg.Merge(pa.schema([])).index(by="sym")
last: pl.DataFrame = tidegate.polars.Frames(pl.DataFrame()).asof_join(table, on="ts")
lazy: pl.LazyFrame = tidegate.polars.Joins(pl.LazyFrame()).asof_join(pl.LazyFrame(), on="ts")
sums: pd.DataFrame = tidegate.pandas.Frames(pd.DataFrame()).aggregate(
    on="ts", size=1, aggs={"n": tg.agg.count()}
)
done: float = tg.interval_join_batches(table, table, on="ts", lower=0, upper=1).stats()["left_rows"]


class Second:
    @property
    def nanos(self) -> int:
        return 10**9


tg.interval_join(table, table, on="ts", lower=Second(), upper="0s")


def share(stats: JoinStats) -> float:
    return stats["left_rows_done"] / stats["left_rows"]


def late(stats: OperatorStats) -> int:
    return stats["rows_late"]


def near(left: Table, right: Table, within: Bound) -> int:
    rows: int = tg.interval_join(left, right, on="ts", lower=within, upper=None).num_rows
    return rows
"""

REJECTED = [
    'tg.interval_join(3, 4, on="ts", lower=0, upper=1)',
    'tg.asof_join(table, None, on="ts")',
    'tg.asof_join(table, [{"ts": 1}], on="ts")',
    'tg.asof_join(table, 1.5, on="ts")',
    'tg.aggregate(7, on="ts", size=1, aggs={"n": tg.agg.count()})',
    'tg.asof_join(table, table, on="ts", strategy="backwards")',
    'tidegate.polars.Frames(pl.DataFrame()).asof_join(table, on="ts", strategy="backwards")',
    'tidegate.pandas.Frames(pd.DataFrame()).asof_join(table, on="ts", tolerance=1.5)',
    "tidegate.polars.Joins(pl.LazyFrame()).asof_join(pl.LazyFrame(), on=1)",
    'tg.interval_join(table, table, on="ts", lower=0, upper=1, how="outer")',
    'tg.interval_join(table, table, on="ts", lower=1.5, upper=2)',
    'tg.aggregate(table, on="ts", size=1, aggs={"n": "count"})',
    'tg.csv("a.csv", types={"user": 3})',
    'tg.csv("a.csv", separator=";")',
    'tg.interval_join_batches(table, table, on="ts", lower=0, upper=1).stats()["rows_done"]',
]


def write(folder: Path) -> set[int]:
    """Write the code, and return the lines that a type checker must reject."""
    lines = [*HEAD.splitlines(), *ACCEPTED.splitlines()]
    (folder / "code.py").write_text("\n".join([*lines, *REJECTED]) + "\n")
    first = len(lines) + 1
    return {*range(first, first + len(REJECTED))}


@pytest.mark.slow
def test_mypy_accepts_tables_and_rejects_others(tmp_path: Path) -> None:
    wanted = write(tmp_path)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = True\n"
        # As for a user without types for these libraries.
        "[mypy-pyarrow.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
        "[mypy-pandas.*]\nignore_missing_imports = True\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "code.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert found == wanted, done.stdout
