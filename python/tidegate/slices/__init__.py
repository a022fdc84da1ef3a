"""Divides calls over Parquet files into tasks, each of which reads the row groups of a time slice.

A call is planned from the statistics in the footers of the files. No rows are read until a task
runs, and a task reads only its own row groups:

    row groups  ├──a──┤├──b──┤├──c──┤├──d──┤
    slices      │   0   │   1   │   2   │
    task 1              └── reads b and c

Each left row, each window and each unmatched right row belongs to exactly one slice. A task also
reads the rows within reach of its slice, its *halo*, so that it finds all partners of its rows.
If rows of any other slice may matter, *preparations* write these rows to files beforehand.
`tidegate.calls.tasks` builds the plans.

- `footers.py`: the files of an input, and what their footers say about each row group.
- `cuts.py`: chooses the borders of slices, and the row groups that each slice reads; arithmetic.
- `plan.py`: the plan, with its preparations, its tasks and its explanation.
- `task.py`: reads the rows of a slice; returns or writes the result of a task.
- `join.py`: plans and runs joins.
- `aggregation.py`: plans and runs windowed aggregations.
- `distant.py`: prepares joins in which a right row of each key may match at any distance.
- `carries.py`: carries one row of each key into later or earlier slices.
- `last_rows.py`: finds the last or the first row of each key in a table.
- `scratch.py`: files that preparations write.
"""
