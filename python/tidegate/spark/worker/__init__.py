"""The code that Spark's Python workers run.

- `pack.py`: packs rows by partition, and unpacks them.
- `order.py`: defines a row order that depends only on the rows' values.
- `nearest.py`: packs the right rows of an as-of join.
- `partials.py`: packs right rows for a join with aggregates and combines some of them.
- `task.py`: runs the native join of a partition.
- `in_place.py`: runs the native join of a partition whose rows are not packed.
- `overlap.py`: packs rows that have a start and an end, and joins the rows in one partition.
- `aggregate.py`: runs the native aggregation of a partition.
- `slices.py`: runs tasks that read files.
- `features.py`: computes the features of the labels in a partition.
- `indexed.py`: joins the rows of a partition with an index.
- `garbage_collection.py`: excludes modules from garbage collection.
"""
