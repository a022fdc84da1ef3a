"""A call whose arguments have been checked against the schemas of its DataFrames.

- `join.py`: the plan of a join.
- `aggregate.py`: the plan of an aggregation.
"""
