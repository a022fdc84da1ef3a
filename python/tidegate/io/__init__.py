"""Opens inputs that are not Arrow data as tables: files, datasets, lazy frames and arrays.

Both calls and the command open tables with `open_tables.py`. Only the command can follow growing
files and write files.

- `open_tables.py`: opens any input as a table whose columns are known before its rows are read.
- `read_files.py`: reads rows from files, all at once or in batches.
- `pruning.py`: finds the row groups of Parquet files that a join can skip.
- `addresses.py`: finds the files that a path, a folder, a pattern or a URL refers to.
- `http.py`: reads files over HTTP.
- `dialects.py`: the options for CSV files.
- `csv_rows.py`: reads CSV files; `headers.py` finds the column names, `guesses.py` infers the types
  of columns, and `times.py` converts strings to times.
- `csv_lines.py`: writes CSV; `iso_times.py` writes times.
- `files.py`: the file formats; writes files.
- `json_rows.py`: reads JSON lines files; `json_lines.py` writes them.
- `partitioned.py`: writes a table as a folder of files.
- `growing.py`: reads growing files, which it recognizes by marks even if they are renamed.
- `followers.py`: reads rows from growing files.
- `lines.py`: finds the line ends in CSV files.
- `live.py`: writes outputs that can be read while they grow and truncated to a saved state.
- `leftovers.py`: removes the temporary files of processes that were killed.
- `locks.py`: locks files; the locks are released even if the process is killed.
"""
