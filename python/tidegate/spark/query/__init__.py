"""The query of a join on Spark, and the columns and types that it names.

- `query.py`: a native query, and what Spark needs to know about it.
- `axis.py`: the values by which rows are divided, as integers.
- `schema.py`: names and types of columns; `input.py`: a side's columns, and the bucket of each row.
"""
