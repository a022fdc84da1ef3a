"""The work of the driver when a join or an aggregation is called.

- `join.py`, `aggregate.py`: return the result as a DataFrame.
- `route.py`: chooses the route: whether to send one side whole, to shuffle rows or leave them in
  place, to have Spark join bins, or to join streams.
- `bins.py`: a join that Spark itself runs, on equal keys and time bins.
- `whole.py`: a small side, which is collected once and sent whole to every task.
- `in_place.py`: two sides that Spark has already partitioned by their keys.
- `files.py`: reads the number of rows from the footers of Parquet files.
- `guess.py`: estimates what a join would cost if its large side were like the small one.
- `division.py`: samples rows and chooses a suitable layout.
- `overlap.py`: does the same for rows with a start and an end.
- `explain.py`: the text that describes the route.
- `jobs.py`: the names of our jobs in Spark's user interface.
"""
