"""Joins and aggregations of streaming DataFrames.

- `join.py`: a join as one stateful operator of Spark.
- `aggregate.py`: an aggregation as one.
- `stateful.py`: the common part of both: the operator, its output, and late rows.
- `operators.py`: the native work on the rows of a bucket.
- `metrics.py`: the numbers of a bucket that the progress of a query shows.
- `store.py`: the state of a bucket, in a worker's memory and in Spark's state store.
"""
