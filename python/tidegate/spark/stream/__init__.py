"""Joins and aggregations of streaming DataFrames.

- `join.py`: runs a join as one stateful operator of Spark.
- `aggregate.py`: runs an aggregation as one stateful operator.
- `rolling.py`: computes rolling windows as one stateful operator.
- `stateful.py`: the operator that joins and aggregations share, its output, and late rows.
- `operators.py`: the native operators that process a bucket's rows.
- `metrics.py`: the per-bucket metrics that a query reports in its progress.
- `store.py`: the state of a bucket, in a worker's memory and in Spark's state store.
"""
