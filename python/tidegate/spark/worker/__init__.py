"""The code that Spark's Python workers run.

- `pack.py`: rows into packs, each for one partition, and back.
- `order.py`: an order of rows that depends on their values alone.
- `nearest.py`: the right rows of an as-of join into packs.
- `partials.py`: the right rows of a join with aggregates into packs, some of them combined.
- `task.py`: the native join of a partition.
- `in_place.py`: the native join of a partition in which no row is packed.
- `overlap.py`: rows with a start and an end, into packs, and the joins of a partition of them.
- `aggregate.py`: the native aggregation of a partition.
- `garbage_collection.py`: modules are set aside from collections of garbage.
"""
