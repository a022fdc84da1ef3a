"""Joins and aggregations of inputs that are larger than memory.

They run where a call has a `memory_limit`, and for large files in time order. Rows are taken in
time order. A join takes a slice of left rows at a time, with the right rows in their reach, and
calls the native join of tables on both. An input that is not known to be in order is sorted in
temporary files first. `tidegate.calls` decides which calls run here, and gives what `joined` and
`aggregated` return to a native reader, which reads it on a thread of its own.

- `limits.py`: the arguments `memory_limit` and `lateness`.
- `joins.py`: joins, slice by slice.
- `aggregates.py`: aggregations, of windows that are over.
- `ordered.py`: the rows of an input in time order, and what is known of their order before.
- `stretches.py`: which row groups of Parquet files follow each other in time.
- `ahead.py`: batches that a thread makes while earlier ones are worked on.
- `sorting.py`: sorts rows by way of temporary files.
- `shares.py`: what the parts of the work may take of the limit.
- `results.py`: the batches of a result, and a table of them.
"""
