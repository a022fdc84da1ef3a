"""Features of DataFrames: the same rows as the call on tables."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import campaign
import spark_session
import tidegate
import tidegate.spark
from test_features import drawn
from tidegate import FeatureView, SchemaError, TidegateError, agg
from tidegate.spark.plan.features import FeaturesPlan

pytestmark = pytest.mark.filterwarnings("ignore")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def lines(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def test_rows_are_those_of_the_call_on_tables(spark) -> None:
    chance = campaign.rng("features on Spark")
    for _ in range(campaign.tries(3)):
        labels, views, _ = drawn(chance)
        frames = {
            name: replace(view, table=spark.createDataFrame(view.table).repartition(2))
            for name, view in views.items()
        }
        frame = spark.createDataFrame(labels).repartition(2)
        query: Row = {"on": "ts", "by": "k", "columns": ["v", "ts"]}
        found = tidegate.spark.features(frame, frames, **query, partitions=3).toArrow()
        # Spark orders events with equal times by the values of the columns that are read.
        plan = FeaturesPlan.of(frame, frames, **query, names="{view}_{name}", partitions=3)
        ordered = {}
        for (name, view), sent in zip(views.items(), plan.sent[1:], strict=True):
            read = ["ts", *(column for column in sent.names if column != "ts")]
            table = view.table.sort_by([(column, "ascending") for column in read])
            ordered[name] = replace(view, table=table)
        expected = tidegate.features(labels, ordered, **query)
        assert found.column_names == expected.column_names
        assert lines(found.cast(expected.schema)) == lines(expected)


def test_keys_of_other_types_and_names(spark) -> None:
    labels = spark.createDataFrame([(10, 1, "x"), (20, 2, "y")], "ts bigint, user int, item string")
    clicks = spark.createDataFrame([(9, 1), (19, 2), (20, 2)], "at bigint, who bigint")
    kinds = "ts int, user int, item string, price float"
    sales = spark.createDataFrame([(5, 1, "x", 2.0), (6, 2, "x", 3.0)], kinds)
    views = {
        "clicks": FeatureView(clicks, on="at", by={"user": "who"}, aggs={"n": agg.count()}),
        "sales": FeatureView(sales, columns=["price"]),
    }
    call: Row = {"on": "ts", "by": ["item", "user"]}
    found = tidegate.spark.features(labels, views, **call)
    assert [tuple(row) for row in found.orderBy("ts").collect()] == [
        (10, 1, "x", 1, 2.0),
        (20, 2, "y", 2, None),
    ]
    text = tidegate.spark.explain(tidegate.spark.features, labels, views, **call)
    assert "divided    by user, in one shuffle" in text
    assert "clicks     at, who" in text


def test_what_is_refused(spark) -> None:
    labels = spark.createDataFrame([(10, 1)], "ts bigint, user int")
    view = FeatureView(labels, aggs={"n": agg.count()})
    call: Row = {"on": "ts", "by": "user"}
    with pytest.raises(TypeError, match=r"write tidegate\.spark\.features\(\.\.\.\)"):
        tidegate.features(labels.toArrow(), {"a": view}, **call)
    with pytest.raises(TidegateError, match=r"views\['a'\]: by: rows are partitioned by key"):
        tidegate.spark.features(labels, {"a": replace(view, by=[])}, **call)
    with pytest.raises(SchemaError, match="labels: there is no column `x`"):
        tidegate.spark.features(labels, {"a": view}, **call, columns=["x"])
    with pytest.raises(TypeError, match=r"views\['a'\]: expected a Spark DataFrame"):
        tidegate.spark.features(labels, {"a": replace(view, table=labels.toArrow())}, **call)
    stream = spark.readStream.format("rate").load().withColumnRenamed("value", "user")
    with pytest.raises(TidegateError, match=r"a: features reads tables, not streams"):
        tidegate.spark.features(labels, {"a": replace(view, table=stream)}, **call)
