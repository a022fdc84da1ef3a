"""The work that the driver performs when a join or an aggregation is called.

- `join.py`, `aggregate.py`, `rolling.py`, `features.py`: return the result as a DataFrame.
- `calls.py`: runs a call, whose inputs are DataFrames or files.
- `tasks.py`: runs tasks that read files.
- `scan.py`: finds the files of a DataFrame that only scans Parquet files.
- `by_files.py`: decides whether tasks read the files of DataFrames.
- `route.py`: chooses the route: send one side in full, shuffle rows, leave them in place, have
  Spark join bins, or join streams.
- `bins.py`: builds a join that Spark itself runs, on equal keys and time bins.
- `whole.py`: collects a small side once and sends it in full to every task.
- `indexed.py`: joins a DataFrame with an index.
- `in_place.py`: joins two sides that Spark has already partitioned by their keys.
- `files.py`: reads row counts from Parquet file footers.
- `guess.py`: estimates the cost of a join, assuming that the large side resembles the small one.
- `division.py`: samples rows and chooses a suitable layout.
- `overlap.py`: samples rows with a start and an end, and chooses a layout for them.
- `explain.py`: builds the text that describes the route.
- `java.py`: the errors raised by calls to Spark's Java objects.
- `jobs.py`: sets the descriptions of jobs in Spark's user interface.
"""
