"""What is asked: the native arguments, and the columns and types that they name.

- `query.py`: a native join, and the arguments of its caller.
- `axis.py`: what rows are divided by, as integers.
- `schema.py`: names and types of columns; `input.py`: a side's columns, and the bucket of its rows.
"""
