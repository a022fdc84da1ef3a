"""What the driver does when a join or an aggregation is called.

- `join.py`: chooses the way of a join, and puts it together.
- `whole.py`: a small side, collected once and sent whole to every task.
- `explain.py`: the text that tells how rows are divided and sent.
- `jobs.py`: what Spark's own pages call our jobs.
"""
