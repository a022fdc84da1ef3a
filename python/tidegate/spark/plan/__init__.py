"""A call whose arguments have been checked against the schemas. No row is read for it.

- `join.py`: the plan of a join.
- `aggregate.py`: the plan of an aggregation.
- `bins.py`: which joins Spark itself can run with time bins.
- `streams.py`: what streams need of their DataFrames and their session.
- `session.py`: the settings of a session that plans go by.
- `checks.py`: checks of arguments that both plans have.
"""
