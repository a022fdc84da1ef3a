"""The work of the driver when a join or an aggregation is called.

- `join.py`, `aggregate.py`: the result as a DataFrame.
- `route.py`: whether a side is sent whole, rows are shuffled or stay, Spark joins bins, or streams
  are joined.
- `bins.py`: a join of Spark's own, by equal keys and bins of time.
- `whole.py`: a small side, collected once and sent whole to every task.
- `in_place.py`: two sides that Spark has partitioned by their keys already.
- `files.py`: the rows of Parquet files, by their footers.
- `guess.py`: what a join would cost if its large side were like the small one.
- `division.py`: samples of rows, and the layout that suits them.
- `overlap.py`: the same of rows that have a start and an end.
- `explain.py`: the text that tells the route.
- `jobs.py`: the names of our jobs in Spark's user interface.
"""
