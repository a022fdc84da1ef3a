"""The plan of a call: its arguments, checked against the schemas without reading any rows.

- `join.py`: the plan of a join.
- `aggregate.py`: the plan of an aggregation.
- `rolling.py`: the plan of rolling windows.
- `features.py`: the plan of features.
- `files.py`: the plan of a call on files.
- `indexed.py`: the plan of a join of a DataFrame with an index.
- `epochs.py`: converts numeric epoch times to timestamps.
- `bins.py`: determines whether Spark itself can run a join with time bins.
- `streams.py`: checks that the DataFrames and the session meet the requirements of streams.
- `host.py`: the engine behind a session, Spark or Sail.
- `session.py`: the session settings that affect plans.
- `checks.py`: checks of the arguments that joins and aggregations share.
"""
