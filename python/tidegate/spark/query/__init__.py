"""The query for a join on Spark, with its columns and their types.

- `query.py`: a native query, and the properties that Spark needs.
- `axis.py`: converts the values by which rows are divided to integers.
- `schema.py`: the names and types of columns.
- `files.py`: the types of columns that are read from files.
- `input.py`: a side's columns and each row's bucket.
"""
