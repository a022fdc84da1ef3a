"""Measures user-defined Spark functions that call tidegate, and one call of `tidegate.spark`.

The first workload is an as-of join of each row with a small table. It uses functions of partitions
(`mapInArrow`, `mapInPandas`) and of columns (`pandas_udf`), and `tidegate.spark.asof_join`. The
second is an interval join of two large sides, with functions of groups of both sides (`cogroup`)
and with `tidegate.spark.interval_join`. The rows of all forms are compared before timing. A figure
is the median of `--repeat` turns: the CPU time of Spark, its Python workers and this process, and
in parentheses the wall-clock time. Linux only.

    python benches/spark_functions.py --rows 1000000 --keys 1000
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.functions import pandas_udf

import tidegate
import tidegate.spark
from spark_costs import fingerprint, in_turns, local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    Forms = dict[str, Callable[[], DataFrame]]

SPAN = 1_000_000_000  # time span of the rows in microseconds
SMALL = 100_000  # number of rows of the small table
BUCKETS = 8  # number of groups of keys

ASOF: dict[str, Any] = {"on": "ts", "by": "key", "suffix": "_right"}
NEAR: dict[str, Any] = {"on": "ts", "by": "key", "columns": ["key", "ts", "v", "w"]}
OF_ASOF = "key long, ts long, v double, w double"


def drawn(seed: int, rows: int, keys: int, value: str) -> pa.Table:
    """Return rows with uniform keys and times."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "key": rng.integers(0, keys, rows),
            "ts": rng.integers(0, SPAN, rows),
            value: rng.random(rows),
        }
    )


def with_last(rows: Any, small: pa.Table) -> pa.Table:  # noqa: ANN401 - Arrow data, or pandas
    """Add the last value of its key to each row."""
    columns = ["key", "ts", "v", "w"]
    return tidegate.asof_join(rows, small, **ASOF, columns=columns, threads=1)


def asof_forms(rows: DataFrame, table: DataFrame, small: pa.Table) -> Forms:
    """Return the forms of the as-of join with a small table."""

    def in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        every = [*batches]
        if every:
            yield from with_last(pa.Table.from_batches(every), small).to_batches()

    def in_pandas(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield with_last(frame, small).to_pandas()

    def of_columns(key: pd.Series, ts: pd.Series) -> pd.Series:
        frame = pd.DataFrame({"key": key, "ts": ts})
        found = tidegate.asof_join(frame, small, **ASOF, columns=["w"], threads=1)
        return found.to_pandas()["w"]

    # Spark reads these annotations to determine the function's argument and return types.
    of_columns.__annotations__ = {"key": pd.Series, "ts": pd.Series, "return": pd.Series}
    column = pandas_udf(of_columns, "double")  # type: ignore[call-overload]
    return {
        "tidegate.spark.asof_join": lambda: tidegate.spark.asof_join(
            rows, table, **ASOF, columns=["key", "ts", "v", "w"]
        ),
        "mapInArrow": lambda: rows.mapInArrow(in_arrow, OF_ASOF),
        "mapInPandas": lambda: rows.mapInPandas(in_pandas, OF_ASOF),
        "pandas_udf": lambda: rows.withColumn("w", column("key", "ts")),
    }


def joined(left: Any, right: Any, half: int) -> pa.Table:  # noqa: ANN401 - Arrow data, or pandas
    """Return the interval join of two groups."""
    return tidegate.interval_join(left, right, **NEAR, lower=-half, upper=half, threads=1)


def interval_forms(left: DataFrame, right: DataFrame, half: int) -> Forms:
    """Return the forms of the interval join of two large sides."""

    def in_pandas(mine: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
        return joined(mine, other, half).to_pandas()

    def grouped(frame: DataFrame) -> Any:  # noqa: ANN401 - Spark publishes no type of it
        return frame.groupBy(F.pmod(F.xxhash64("key"), F.lit(BUCKETS)))

    both = grouped(left).cogroup(grouped(right))
    return {
        "tidegate.spark.interval_join": lambda: tidegate.spark.interval_join(
            left, right, **NEAR, lower=-half, upper=half
        ),
        "cogroup, applyInArrow": lambda: both.applyInArrow(
            functools.partial(joined, half=half), OF_ASOF
        ),
        "cogroup, applyInPandas": lambda: both.applyInPandas(in_pandas, OF_ASOF),
    }


def compared(forms: Forms) -> None:
    """Exit if the rows of a form differ from those of the first."""
    prints = {name: fingerprint(form()) for name, form in forms.items()}
    if len(set(prints.values())) > 1:
        sys.exit(f"the rows differ: {prints}")


def main() -> None:
    """Compare and measure all forms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    settings = {"spark.sql.execution.arrow.maxBytesPerBatch": "2147483647"}
    session = local_session(arguments.threads, arguments.memory, BUCKETS, settings)
    # About four partners per row.
    half = max(1, 2 * SPAN * arguments.keys // arguments.rows)
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "left": drawn(1, arguments.rows, arguments.keys, "v"),
            "right": drawn(2, arguments.rows, arguments.keys, "w"),
            "small": drawn(3, SMALL, arguments.keys, "w"),
        }
        for name, table in tables.items():
            pq.write_table(table, Path(folder, f"{name}.parquet"))
        left, right, small = (session.read.parquet(f"{folder}/{name}.parquet") for name in tables)
        left, right = left.repartition(arguments.threads).cache(), right.cache()
        for title, forms in (
            (f"as-of join with {SMALL:,} rows", asof_forms(left, small, tables["small"])),
            ("interval join of both sides", interval_forms(left, right, half)),
        ):
            compared(forms)
            print(f"\n{title}, {arguments.rows:,} rows per side, {arguments.keys:,} keys")
            for name, cost in in_turns(forms, arguments.repeat).items():
                print(f"  {name:<32}{cost}")
    session.stop()


if __name__ == "__main__":
    main()
