"""The partition that a row belongs to: the driver chooses it, and the tasks look it up.

- `layout.py`: buckets of keys and slices of time, and the slices of a row.
- `nearest.py`: the rows that a slice needs of others, where a row has one partner.
- `overlap.py`: the slices of a row that has a start and an end.
- `balance.py`: the layout that suits a sample of rows.
- `lengths.py`: the layout that suits a sample of rows with a start and an end.
- `costs.py`: what a join costs in each form that it may have: the one model.
- `bins.py`: bins of time for a join of Spark's own.
- `cycle.py`: the layout of streams that are divided by time or by value.
- `hashed_times.py`: the layout of streams whose buckets give parts of results.
- `hashed.py`: the numbers by which Spark puts one partition's rows in one task.
"""
