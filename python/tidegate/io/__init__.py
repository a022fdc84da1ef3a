"""Event tables in files and pipes. The command reads and writes them; joins do not.

- `files.py`: Parquet, CSV and Arrow files and pipes, whole or by batches.
- `growing.py`: the bytes of files that grow, through renames, and the marks that identify a file.
- `followers.py`: the rows of files that grow.
- `lines.py`: where the lines of CSV end.
- `live.py`: outputs that others read while they are written, and that a saved state can cut.
- `locks.py`: locks on files, which a kill releases.
"""
