"""Numbers of a stream in its query's progress, where Spark's own say nothing of rows and keys.

Each bucket that had any work in a micro-batch tells its numbers, and Spark adds them up as observed
metrics. Its own `stateOperators` count entries and bytes of the store as a whole.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Numbers(NamedTuple):
    """The numbers of a bucket; a row of its output that has a batch has none."""

    came: int | None = None
    set_aside: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    of_hot_key: int | None = None
    hot_key: str | None = None


# Their Spark schema.
COLUMNS = ", ".join(f"{name} bigint" for name in Numbers._fields[:-1]) + ", hot_key string"


# A query may have several calls, whose metrics must have different names.
_calls = itertools.count(1)


def observed(results: DataFrame, function: str) -> DataFrame:
    """The output of the buckets of a call, whose numbers Spark adds up."""
    sums = {
        "rows": "came",
        "late_rows": "set_aside",
        "state_rows": "state_rows",
        "state_bytes": "state_bytes",
    }
    return results.observe(
        f"tidegate.{function} {next(_calls)}",
        F.count("came").alias("buckets"),
        *(F.expr(f"coalesce(sum({column}), 0L)").alias(name) for name, column in sums.items()),
        F.expr("coalesce(max(came), 0L)").alias("rows_of_fullest"),
        F.expr("max_by(hot_key, of_hot_key)").alias("hot_key"),
        F.expr("coalesce(max(of_hot_key), 0L)").alias("rows_of_hot_key"),
    )
