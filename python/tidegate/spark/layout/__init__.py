"""Which partition a row belongs to: chosen on the driver, read by the tasks.

- `layout.py`: buckets of keys and slices of time, and who gets which row.
- `balance.py`: the layout that suits a sample of rows.
- `cycle.py`: the layout of streams without a key.
"""
