"""Divides calls over Parquet files into tasks, each of which reads the row groups of a time slice.

Calls are planned using the statistics in the file footers. A task reads only its own row groups:

    row groups  ├──a──┤├──b──┤├──c──┤├──d──┤
    slices      │   0   │   1   │   2   │
    task 1              └── reads b and c

Each left row, each window and each unmatched right row belongs to exactly one slice. To find all
partners of its rows, a task also reads the rows within reach of its slice, called its *halo*. If a
task may need rows from any other slice, *preparation steps* write these rows to files beforehand.
`tidegate.calls.tasks` builds the plans.

In a file that is not in time order, a row group contains rows from many slices, so many tasks would
have to read it. A first stage of preparation steps sorts the rows of such row groups into new
files. In these files, each row group contains only rows that the same tasks need.

In an overlap join, a long row extends into many slices. The slice tasks then process only short
rows, and additional tasks process *layers* of longer rows.

- `files.py`: the files that tasks read.
- `footers.py`: an input's files, and the row group metadata in their footers.
- `division.py`: divides a call's inputs into slices; decides which row groups to sort.
- `excess.py`: finds row groups that too many tasks would read.
- `samples.py`: samples of an input's times.
- `layers.py`: additional tasks for long rows; the row groups that each task reads.
- `overlaps.py`: assigns long rows in an overlap join to layers.
- `cells.py`: the row groups in sorted files.
- `sorting.py`: the preparation steps that sort rows.
- `cuts.py`: chooses slice boundaries; time ranges, and the row groups in each; time arithmetic.
- `plan.py`: the plan, with its preparation steps, tasks and explanation.
- `task.py`: reads a slice's rows; returns or writes a task's result.
- `join.py`: plans and runs joins.
- `indexed.py`: plans and runs joins whose right side is an index in a file.
- `aggregation.py`: plans windowed aggregations.
- `windows.py`: aggregates the windows of a slice.
- `sessions.py`: plans and runs session aggregations.
- `row_windows.py`: plans and runs aggregations over row-based windows.
- `listed.py`: divides windows from a table.
- `filled.py`: adds windows without rows.
- `rolling.py`: plans and runs rolling windows.
- `key_rows.py`: counts the rows of each key, and carries the counts.
- `window_rows.py`: finds the rows in each window.
- `distant.py`: prepares joins in which matching rows may be any distance apart in time.
- `carries.py`: carries a fixed number of rows per key into later or earlier slices.
- `last_rows.py`: finds the first or last rows for each key in a table.
- `scratch.py`: files that preparation steps write.
"""
