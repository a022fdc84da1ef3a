"""Features of DataFrames of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from tidegate.calls.arguments import told
from tidegate.feature_views import FeatureView
from tidegate.spark.driver.features import computed
from tidegate.spark.plan.features import FeaturesPlan
from tidegate.types import KeyNames


@told
def features(  # noqa: PLR0913 - the arguments of the call
    labels: DataFrame,
    views: Mapping[str, FeatureView],
    *,
    on: str,
    by: KeyNames,
    names: str = "{view}_{name}",
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Compute features for each label from any number of DataFrames, in one shuffle.

    The function returns the same rows as `tidegate.features`, but in no particular order. The rows
    of all tables are divided among tasks by key, and a task processes all rows of its keys. If a
    few keys have most of the rows, use `tidegate.spark.interval_join` for each view, which also
    divides such keys.

    Spark does not preserve the order of rows, so events with equal times are ordered by value. The
    comparison uses all columns that are read, with nulls last.

    Example:
        >>> labels = spark.createDataFrame([(10, "A"), (30, "A")], ["ts", "user"])
        >>> clicks = spark.createDataFrame(
        ...     [(8, "A", 9.0), (10, "A", 8.0), (29, "A", 7.0)], ["ts", "user", "price"]
        ... )
        >>> view = tidegate.FeatureView(
        ...     clicks, aggs={"n": tidegate.agg.count(lower=-10)}, columns=["price"]
        ... )
        >>> found = tidegate.spark.features(labels, {"clicks": view}, on="ts", by="user")
        >>> found.orderBy("ts").show()
        +---+----+--------+------------+
        | ts|user|clicks_n|clicks_price|
        +---+----+--------+------------+
        | 10|   A|       2|         8.0|
        | 30|   A|       1|         7.0|
        +---+----+--------+------------+
        <BLANKLINE>

    Args:
        labels: The DataFrame with one row per label.
        views: The DataFrames of events and what to compute from them, keyed by name.
        on: The time column of the labels and, unless a view has its own `on`, of all events.
        by: The key columns of the labels and, unless a view has its own `by`, of all events. At
            least one key column of the labels must be a key of all views.
        names: The pattern for the names of features, with the name of the view as `{view}` and the
            name of the aggregate or column as `{name}`.
        columns: The columns of the labels to include in the result. None means all columns.
        partitions: The number of partitions into which keys are divided. None lets Spark choose the
            number.

    Returns:
        A DataFrame with the columns of the labels, followed by the features of each view.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: Another argument is invalid, or a DataFrame is a stream. A task
            fails if it reads a null time, or if an integer sum exceeds 64 bits. Spark then raises
            the error when you use the DataFrame.
        TypeError: An argument has the wrong type.
    """
    plan = FeaturesPlan.of(
        labels, views, on=on, by=by, names=names, columns=columns, partitions=partitions
    )
    return computed(plan)
