"""Whatever is no Arrow data, as tables: files by their addresses, datasets, lazy frames, arrays.

Calls and the command open tables by `open_tables.py`. The command alone follows files that
grow, and writes files.

- `open_tables.py`: whatever a caller has, as a table whose columns are known before it is read.
- `read_files.py`: the rows of files, whole or by batches.
- `pruning.py`: which row groups of Parquet files a join need not read.
- `addresses.py`: which files a path, a folder, a pattern or a URL stands for.
- `http.py`: files behind HTTP.
- `files.py`: the formats of files, and how files are written.
- `json_lines.py`: rows as JSON lines.
- `partitioned.py`: a table as a folder of files.
- `growing.py`: the bytes of files that grow, through renames, and the marks that identify a file.
- `followers.py`: the rows of files that grow.
- `lines.py`: where the lines of CSV end.
- `live.py`: outputs that others read while they are written, and that a saved state can cut.
- `locks.py`: locks on files, which a kill releases.
"""
