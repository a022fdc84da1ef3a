"""Joins and aggregations of inputs that are larger than memory.

They run where a call has a `memory_limit`, and for large files in time order. Rows are taken in
time order. A join takes a slice of left rows at a time, with the right rows in their reach, and
calls the native join of tables on both. An input that is not known to be in order is sorted in
temporary files first. The native functions call `joined` and `aggregated`, and read what these
return on a thread of their own. `prepared` is called before native functions are called with files.

- `choosing.py`: whether files without a limit are taken slice by slice, too.
- `joins.py`: joins, slice by slice.
- `aggregates.py`: aggregations, of windows that are over.
- `ordered.py`: the rows of an input in time order, and what is known of their order before.
- `stretches.py`: which row groups of Parquet files follow each other in time.
- `ahead.py`: batches that a thread makes while earlier ones are worked on.
- `sorting.py`: sorts rows by way of temporary files.
- `shares.py`: what the parts of the work may take of the limit.
- `results.py`: the batches of a result, and a table of them.
"""

from tidegate.bounded.aggregates import aggregated
from tidegate.bounded.choosing import prepared
from tidegate.bounded.joins import joined
from tidegate.bounded.results import known, table

__all__ = ["aggregated", "joined", "known", "prepared", "table"]
