"""Every function and method with every kind of reader, one after another.

As a program, it runs the cases from a given number on and prints how each ended, which shows the
case that hangs: `python reader_cases.py read 0`. `python reader_cases.py given 0` passes inputs
that are not Arrow data. `python reader_cases.py sleep 0` passes readers that sleep, and sends
itself Ctrl-C meanwhile.
"""

import functools
import http.server
import io
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

import tidegate as tg

ROWS = 100
TABLE = pa.table({"ts": np.arange(ROWS), "v": np.arange(ROWS) * 1.5})
SCHEMA = TABLE.schema


# Readers

QUERY = "select i as ts, i * 1.5::double as v from range(100) t(i)"


def generated(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


def batches() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches(max_chunksize=30)


def of_a_thread() -> Iterator[pa.RecordBatch]:
    """Yield values computed by a thread that needs the GIL."""
    made: queue.Queue[pa.RecordBatch | None] = queue.Queue(1)

    def make() -> None:
        for batch in batches():
            made.put(batch)
        made.put(None)

    threading.Thread(target=make).start()
    yield from iter(made.get, None)


class OneFile(pafs.FileSystemHandler):
    """A file system in Python that contains one file."""

    def __init__(self) -> None:
        out = io.BytesIO()
        with pa.ipc.new_file(out, SCHEMA) as file:
            file.write_table(TABLE, max_chunksize=30)
        self.content = out.getvalue()

    def get_type_name(self):
        return "one"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return [pafs.FileInfo(path, pafs.FileType.File, size=len(self.content)) for path in paths]

    def open_input_file(self, _path):
        return pa.PythonFile(io.BytesIO(self.content), mode="r")

    def open_input_stream(self, path):
        return self.open_input_file(path)

    def refuse(self, *_arguments):
        """Not called by any reader: there is one file, which is only read."""
        raise NotImplementedError

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = refuse
    delete_root_dir_contents = get_file_info_selector = move = refuse
    open_append_stream = open_output_stream = refuse


def in_python_files() -> ds.Dataset:
    return ds.dataset("a.arrow", filesystem=pafs.PyFileSystem(OneFile()), format="ipc")


def python_file() -> pa.RecordBatchReader:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, SCHEMA) as file:
        file.write_table(TABLE, max_chunksize=30)
    return pa.ipc.open_stream(pa.PythonFile(io.BytesIO(out.getvalue()), mode="r"))


def ours() -> tg.BatchReader:
    frame = TABLE.to_pandas()
    return tg.interval_join_batches(
        frame, TABLE.to_pandas(), on="ts", lower=0, upper=0, how="semi", batch_rows=30
    )


READERS: dict[str, Callable[[], object]] = {
    "Python generator": lambda: generated(batches()),
    "thread that needs the GIL": lambda: generated(of_a_thread()),
    "join of pandas frames": ours,
    "merge of generators": lambda: tg.merge_batches([generated(batches())]),
    "dataset reader": lambda: in_python_files().scanner().to_reader(),
    "Python file": python_file,
    "DuckDB relation": lambda: duckdb.sql(QUERY),
    "DuckDB reader": lambda: duckdb.sql(QUERY).to_arrow_reader(30),
    "polars": lambda: pl.DataFrame(TABLE),
    "pandas": lambda: pd.DataFrame(TABLE.to_pandas()),
    "record batch": lambda: TABLE.combine_chunks().to_batches()[0],
}


# Other inputs of functions


def written(folder: Path) -> None:
    """Write the table to files in all formats and layouts."""
    halves = [TABLE.slice(0, 50), TABLE.slice(50)]
    for at, half in enumerate(halves):
        for name in (f"parts/{at}", f"days/day={at}/part"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(half, folder / f"{name}.parquet")
    pq.write_table(TABLE, folder / "table.parquet", row_group_size=30)
    pa.csv.write_csv(TABLE, folder / "table.csv")
    with pa.ipc.new_file(folder / "table.arrow", SCHEMA) as file:
        file.write_table(TABLE, max_chunksize=30)
    with pa.ipc.new_stream(folder / "table.arrows", SCHEMA) as file:
        file.write_table(TABLE, max_chunksize=30)


def served(folder: Path) -> str:
    """Return the address of a server for the files in a folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            pass

    make = functools.partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def inputs(folder: Path) -> dict[str, Callable[[], object]]:
    """Yield inputs that are not Arrow data."""
    written(folder)
    address = served(folder)
    whole = [f"{folder}/table.{ending}" for ending in ("parquet", "csv", "arrow", "arrows")]
    frame = TABLE.to_pandas()
    return {
        **{Path(path).name: lambda path=path: path for path in whole},
        "Path": lambda: folder / "table.parquet",
        "list of paths": lambda: [folder / "parts/0.parquet", f"{folder}/parts/1.parquet"],
        "folder": lambda: f"{folder}/parts/",
        "partitions": lambda: folder / "days",
        "pattern": lambda: f"{folder}/*/*/part.parquet",
        "file://": lambda: f"file://{folder}/parts/*.parquet",
        "http://": lambda: f"{address}/table.parquet",
        "dataset": lambda: ds.dataset(folder / "parts"),
        "dataset in Python files": in_python_files,
        "scanner": lambda: ds.dataset(folder / "parts").scanner(),
        "ParquetFile": lambda: pq.ParquetFile(folder / "table.parquet"),
        "lazy frame": lambda: pl.scan_parquet(folder / "table.parquet"),
        "lazy frame of Python": lambda: pl.LazyFrame(TABLE).with_columns(
            pl.col("v").map_elements(lambda value: value, pl.Float64)
        ),
        "records": lambda: frame.to_records(index=False),
        "dict of arrays": lambda: {"ts": list(range(ROWS)), "v": TABLE["v"].to_numpy()},
    }


# Functions


def rows(found) -> int:
    return found.num_rows if isinstance(found, pa.Table) else sum(batch.num_rows for batch in found)


def pushed(operator, data: object) -> int:
    for source in operator.sources:
        with source:
            source.push(data if source.number == 0 else TABLE)
    return rows(operator)


CLOSE = {"on": "ts", "lower": 0, "upper": 0}
TALLY = {"on": "ts", "size": 1, "aggs": {"n": tg.agg.count()}}
BAND = {"on": "v", "within": 0.5}
INTERVALS = {"on": ("ts", "ts")}
FUNCTIONS: dict[str, Callable[[object], int]] = {
    "interval_join": lambda data: rows(tg.interval_join(data, TABLE, **CLOSE)),
    "interval_join right": lambda data: rows(tg.interval_join(TABLE, data, **CLOSE)),
    "interval_join_batches": lambda data: rows(tg.interval_join_batches(data, TABLE, **CLOSE)),
    "window_join": lambda data: rows(tg.window_join(data, TABLE, on="ts", window=0)),
    "window_join_batches": lambda data: rows(
        tg.window_join_batches(TABLE, data, on="ts", window=0)
    ),
    "band_join": lambda data: rows(tg.band_join(data, TABLE, **BAND)),
    "band_join_batches": lambda data: rows(tg.band_join_batches(TABLE, data, **BAND)),
    "overlap_join": lambda data: rows(tg.overlap_join(data, TABLE, **INTERVALS)),
    "overlap_join_batches": lambda data: rows(tg.overlap_join_batches(TABLE, data, **INTERVALS)),
    "aggregate": lambda data: rows(tg.aggregate(data, **TALLY)),
    "merge": lambda data: rows(tg.merge([data])),
    "merge_batches": lambda data: rows(tg.merge_batches([data])),
    "pyarrow": lambda data: pa.table(tg.merge_batches([data])).num_rows,
    "polars": lambda data: pl.DataFrame(tg.merge_batches([data])).height,
    "explain": lambda data: len(tg.explain(tg.interval_join, data, TABLE, **CLOSE)) and ROWS,
    "Merge": lambda data: pushed(tg.Merge(SCHEMA), data),
    "Aggregate": lambda data: pushed(tg.Aggregate(SCHEMA, **TALLY), data),
    "IntervalJoin": lambda data: pushed(tg.IntervalJoin(SCHEMA, SCHEMA, **CLOSE), data),
    "WindowJoin": lambda data: pushed(tg.WindowJoin(SCHEMA, SCHEMA, on="ts", window=0), data),
    "BandJoin": lambda data: pushed(tg.BandJoin(SCHEMA, SCHEMA, time="ts", window=0, **BAND), data),
}


def ended(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except BaseException as error:  # noqa: BLE001 - includes Ctrl-C and panics
        return f"{type(error).__name__} {error}".replace("\n", " ")


def failing() -> Iterator[pa.RecordBatch]:
    yield from batches()
    message = "boom"
    raise LookupError(message)


def input_cases() -> Iterator[tuple[str, Callable[[], object]]]:
    with tempfile.TemporaryDirectory() as folder:
        for kind, give in inputs(Path(folder)).items():
            for function, use in FUNCTIONS.items():
                # A source accepts Arrow data and rows.
                if not function[0].isupper():
                    yield f"{function} of {kind}", lambda use=use, give=give: use(give())


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    for reader, read in {**READERS, "failing": lambda: generated(failing())}.items():
        for function, use in FUNCTIONS.items():
            yield f"{function} of {reader}", lambda use=use, read=read: use(read())


# Ctrl-C


def sleeping() -> Iterator[pa.RecordBatch]:
    yield TABLE.to_batches()[0]
    time.sleep(60)


def interrupted(use: Callable[[object], int]) -> str:
    """Describe how a call ends that is interrupted by Ctrl-C, and mark it if it ends late."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    outcome = ended(lambda: use(generated(sleeping())))
    timer.join()
    return outcome if time.monotonic() - begin < 20 else f"late {outcome}"


def sleep_cases() -> Iterator[tuple[str, Callable[[], object]]]:
    for function, use in FUNCTIONS.items():
        # An explanation reads no rows, and pyarrow and Polars themselves wait for their readers.
        if function not in {"explain", "pyarrow", "polars"}:
            yield function, lambda use=use: interrupted(use)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kinds = {"read": cases, "given": input_cases, "sleep": sleep_cases}
    for at, (name, call) in enumerate(kinds[sys.argv[1]]()):
        if at >= int(sys.argv[2]):
            print(name, end="\t", flush=True)  # noqa: T201 - for the test
            print(ended(call), flush=True)  # noqa: T201 - for the test
