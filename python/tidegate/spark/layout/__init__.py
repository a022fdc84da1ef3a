"""The partition that a row belongs to: the driver chooses a layout, and the tasks apply it.

- `layout.py`: buckets of keys and slices of time, and the slices of a row.
- `nearest.py`: the rows that a slice needs from other slices when each row has at most one partner.
- `overlap.py`: the slices of a row that has a start and an end.
- `balance.py`: chooses the layout that best suits a sample of rows.
- `lengths.py`: chooses the layout that best suits a sample of rows with a start and an end.
- `costs.py`: the cost model, which estimates what each form of a join costs.
- `bins.py`: time bins for a join that Spark itself runs.
- `cycle.py`: the layout of streams that are divided by time or by value.
- `hashed_times.py`: the layout of streams whose buckets produce partial results.
- `hashed.py`: the numbers that make Spark process the rows of each partition in one task.
"""
