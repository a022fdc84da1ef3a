"""Joins and aggregations of streaming DataFrames.

- `join.py`: a join as one stateful operator of Spark.
- `aggregate.py`: an aggregation as one.
- `stateful.py`: what both share: the operator, its output, and late rows.
- `operators.py`: what a worker does with the rows of a bucket.
- `store.py`: what it keeps of them, in its memory and in Spark's state store.
"""
