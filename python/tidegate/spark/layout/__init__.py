"""Determines each row's partition: the driver chooses a layout, and the tasks apply it.

- `layout.py`: divides rows into key buckets and time slices.
- `nearest.py`: finds the rows that a slice needs from other slices in an as-of join.
- `overlap.py`: determines the slices that receive a row with a start and an end.
- `balance.py`: chooses the layout that best suits a sample of rows.
- `lengths.py`: chooses the layout that best suits a sample of rows with a start and an end.
- `costs.py`: the cost model, which estimates the cost of each form of join.
- `bins.py`: time bins for a join that Spark itself runs.
- `cycle.py`: the layout of streams that are divided by time or by value.
- `hashed_times.py`: the layout of streams whose buckets produce partial results.
- `hashed.py`: finds the numbers that Spark's hash assigns to given partitions.
"""
