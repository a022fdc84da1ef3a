"""Joins and aggregations of inputs that are larger than memory.

These modules run calls that have a `memory_limit`, or that read large files in time order. Rows are
processed in time order. A join processes one slice of left rows at a time: it calls the native join
for tables with the slice and the right rows within the slice's reach. An input that is not known to
be in order is first sorted in temporary files. `tidegate.calls` decides which calls use these
modules. A native reader reads the result of `joined` or `aggregated` on a separate thread.

- `limits.py`: the arguments `memory_limit` and `lateness`.
- `joins.py`: joins, slice by slice.
- `aggregates.py`: aggregations, which drop the state of a window once the window is complete.
- `ordered.py`: reads an input's rows in time order, and checks whether they are already in order.
- `stretches.py`: finds Parquet row groups that do not overlap in time.
- `ahead.py`: produces batches on a thread while earlier batches are being processed.
- `sorting.py`: sorts rows with temporary files.
- `shares.py`: divides the memory limit among the parts of a call.
- `results.py`: the batches of a result, and tables built from them.
"""
