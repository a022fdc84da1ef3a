"""The code that Spark's Python workers run.

- `pack.py`: rows into packs, each for one partition, and back.
- `task.py`: the native join of a partition.
- `aggregate.py`: the native aggregation of a partition.
"""
