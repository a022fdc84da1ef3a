"""Divides calls over Parquet files into tasks, each of which reads the row groups of a time slice.

A call is planned from the statistics in the footers of the files. A task reads only its own row
groups:

    row groups  ├──a──┤├──b──┤├──c──┤├──d──┤
    slices      │   0   │   1   │   2   │
    task 1              └── reads b and c

Each left row, each window and each unmatched right row belongs to exactly one slice. A task also
reads the rows within reach of its slice, its *halo*, so that it finds all partners of its rows.
If rows of any other slice may matter, *preparations* write these rows to files beforehand.
`tidegate.calls.tasks` builds the plans.

If the rows of a row group belong to many slices, as in a file that is not in time order, many tasks
would have to read this row group. A first stage of *preparations* sorts such row groups into files
in which each row group contains only rows that the same tasks need.

In an overlap join, a long row reaches into many slices. The tasks of slices then process only short
rows, and additional tasks process the *layers* of longer rows.

- `files.py`: the files that tasks read.
- `footers.py`: the files of an input, and what their footers say about each row group.
- `division.py`: divides the inputs of a call into slices; decides what to sort.
- `excess.py`: finds row groups that too many tasks would read.
- `samples.py`: samples of an input's times.
- `layers.py`: additional tasks for long rows; the row groups that each task reads.
- `overlaps.py`: decides which rows of an overlap join get a layer.
- `cells.py`: the row groups of sorted files.
- `sorting.py`: the preparations that sort rows.
- `cuts.py`: chooses the borders of slices; ranges of times, and the row groups in each; arithmetic.
- `plan.py`: the plan, with its preparations, its tasks and its explanation.
- `task.py`: reads the rows of a slice; returns or writes the result of a task.
- `join.py`: plans and runs joins.
- `aggregation.py`: plans and runs windowed aggregations.
- `distant.py`: prepares joins in which a right row of each key may match at any distance.
- `carries.py`: carries one row of each key into later or earlier slices.
- `last_rows.py`: finds the last or the first row of each key in a table.
- `scratch.py`: files that preparations write.
"""
