"""What is asked: the native arguments, and the columns and types that they name.

- `query.py`: the arguments of the native joins, under uniform names.
- `bounds.py`: bounds in Spark's unit of time; `window.py`: windows of time as bounds.
- `axis.py`: what rows are divided by, as integers.
- `schema.py`: names and types of columns; `input.py`: a side's columns, and the bucket of its rows.
"""
