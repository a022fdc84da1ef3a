"""Streams of files with some late rows, queries that read them, and the expected results."""

import datetime as dt
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tidegate
import tidegate.spark
from tidegate.spark.worker.aggregate import in_order

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
STORE = {
    "spark__sql__streaming__stateStore__providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
QUERY = {"on": "ts", "by": "k", "lower": "-4s", "upper": "2s"}
QUERIES: dict[str, dict[str, Any]] = {
    "interval_join": QUERY,
    "window_join": {"on": "ts", "by": "k", "window": ("2s", "4s")},
    "band_join": {"on": "v", "within": 25, "by": "k", "time": "ts", "window": ("2s", "4s")},
    "asof_join": {"on": "ts", "by": "k"},
}
WINDOWS = {"on": "ts", "by": "k", "size": "8s", "advance": "3s"}
SIDES = ("left", "right")

# The milliseconds that rows may be late, and a delay with which no row is late.
DELAY = 5_000
LONG = 40_000

_START = 1_700_000_000_000_000
_STEP = 10_000_000

# The times of the last rows, which move the watermark past all others.
END = -1


def write(folder: Path, batches: int, seed: int, rows: int = 40, grain: int = 1) -> None:
    """Write two folders of files, one file per micro-batch.

    The last file moves the watermark past all other rows. Times are multiples of `grain`
    microseconds.
    """
    draw = random.Random(seed)  # noqa: S311 - for tests
    for side in SIDES:
        (folder / side).mkdir(parents=True)
        # Values start at 1, because a zero could be mistaken for a missing value.
        value = 1
        for batch in range(batches + 1):
            if batch < batches:
                count = draw.randrange(1, rows)
                table = _rows(draw, batch, count, value, grain)
                value += count
            else:
                last = _START + (1_000 + batch) * _STEP
                table = pa.table([[None], [last], [END]], schema=SCHEMA)
            path = folder / side / f"{batch:03}.parquet"
            pq.write_table(table, path)
            # Spark reads files in order of their modification times.
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))


def _rows(draw: random.Random, batch: int, count: int, first: int, grain: int) -> pa.Table:
    keys = [draw.choice(["a", "b", "c", "d", None]) for _ in range(count)]
    times = [_START + batch * _STEP + draw.randrange(-15_000_000, _STEP) for _ in keys]
    times = [time // grain * grain for time in times]
    return pa.table([keys, times, range(first, first + count)], schema=SCHEMA)


@contextmanager
def held_back(folder: Path) -> Iterator[None]:
    """Remove all files except the first of each side temporarily."""
    rest = [path for side in SIDES for path in sorted((folder / side).iterdir())[1:]]
    kept = [(path, path.read_bytes(), path.stat().st_mtime) for path in rest]
    for path in rest:
        path.unlink()
    yield
    for path, rows, time in kept:
        path.write_bytes(rows)
        os.utime(path, (time, time))


def read(spark: SparkSession, folder: Path, delay: int = DELAY) -> tuple[DataFrame, DataFrame]:
    """Read both folders as streams."""
    left, right = (
        spark.readStream.schema("k string, ts timestamp, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / side))
        .withWatermark("ts", f"{delay} milliseconds")
        for side in SIDES
    )
    return left, right


def joined(
    spark: SparkSession, folder: Path, join: str = "interval_join", **arguments: Any
) -> DataFrame:
    """Return the join of both folders, including late rows."""
    query = {**QUERIES[join], "late_as": "late", "partitions": 4, **arguments}
    function = getattr(tidegate.spark, join)
    found: DataFrame = function(*read(spark, folder), **query)
    return found


def aggregated(spark: SparkSession, folder: Path, **arguments: Any) -> DataFrame:
    """Return the windows of both folders, including late rows."""
    query = {**WINDOWS, "late_as": "late", "partitions": 4, **arguments}
    return tidegate.spark.aggregate(read(spark, folder), **query)


class Sink:
    """Collects the results of a query."""

    def __init__(self, folder: Path, mode: str = "append") -> None:
        self.folder = folder
        self.mode = mode
        self.tables: dict[int, pa.Table] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.tables[batch] = frame.toArrow()

    def begin(self, found: DataFrame) -> StreamingQuery:
        """Start or resume the query."""
        writer = found.writeStream.foreachBatch(self).outputMode(self.mode)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def drain(self, found: DataFrame) -> pa.Table:
        """Return all results, after all input has been read and the watermark has passed it."""
        query = self.begin(found)
        query.processAllAvailable()
        query.stop()
        return self.all()

    def stop_often(self, make: Callable[[], DataFrame], times: int) -> pa.Table:
        """Return all results of a query that is repeatedly stopped after a few batches."""
        for _ in range(times):
            query = self.begin(make())
            before = len(self.tables)
            while len(self.tables) < before + 2 and query.isActive:
                query.awaitTermination(0.05)
            query.stop()
        return self.drain(make())

    def all(self) -> pa.Table:
        return pa.concat_tables(self.tables.values())


class Killer(Sink):
    """A sink that kills Python's workers after each batch, before it is committed.

    With `daemon`, the process that forks them is killed with the first workers. It is killed only
    once, because starting a new one takes seconds.
    """

    def __init__(self, folder: Path, spark: SparkSession, *, daemon: bool = True) -> None:
        super().__init__(folder)
        self.java = spark.sparkContext._gateway.proc.pid
        self.daemon = daemon
        self.killed = 0

    def __call__(self, frame: DataFrame, batch: int) -> None:
        super().__call__(frame, batch)
        self.killed += kill_workers(self.java, daemon=self.daemon and not self.killed)


def check(
    folder: Path,
    found: pa.Table,
    join: str = "interval_join",
    *,
    restarted: bool = False,
    **arguments: Any,
) -> None:
    """Check that the rows are the late ones, and those of the join of tables of all others.

    After a restart Spark forgets each side's progress, so fewer rows may be late. A kill may also
    put the sides out of step, and then rows may be late that their own side's watermark has passed.
    """
    files = _files(folder)
    late = _late(files, restarted=restarted)
    rows = found.to_pylist()
    marked = [row for row in rows if row["late"]]
    # Semi and anti joins have no column for the value of a right row.
    found_late = {(row["late"], next(filter(None, _values(row)), None)) for row in marked}
    assert found_late <= late | {("right", None)}
    if restarted:
        late = found_late
    assert len(marked) == len(late) > 0
    function = getattr(tidegate, join)
    expected = function(*_used(files, late), **{**QUERIES[join], **arguments})
    results = [row for row in rows if not row["late"] and END not in _values(row)]
    assert len(results) == expected.num_rows > 0
    assert _counted(results) == _counted(expected.to_pylist())


def check_of_all(folder: Path, found: pa.Table, join: str, **arguments: Any) -> None:
    """Check as `check` does, but without late rows. The result has a column `v_right`."""
    query = {**QUERIES[join], **arguments}
    expected = getattr(tidegate, join)(*_used(_files(folder), set()), **query)
    results = [row for row in found.to_pylist() if END not in _values(row)]
    assert len(results) == expected.num_rows > 0
    assert _counted(results) == _counted(expected.to_pylist())


def check_windows(
    folder: Path, found: pa.Table, *, restarted: bool = False, **arguments: Any
) -> None:
    """Check the result of `aggregated` as `check` does."""
    files = _files(folder)
    rows = found.to_pylist()
    late = _late(files, restarted=restarted)
    found_late = {
        (SIDES[row["late"]["stream"]], row["late"]["row"]["v"]) for row in rows if row["late"]
    }
    assert found_late <= late
    if restarted:
        late = found_late
    assert found_late == late
    assert len([row for row in rows if row["late"]]) == len(late) > 0
    streams = [in_order(used, "ts", days=False) for used in _used(files, late)]
    expected = tidegate.aggregate(streams, **{**WINDOWS, **arguments})
    end = pc.min(files["left"][-1]["ts"]).as_py() - dt.timedelta(seconds=60)
    # The last rows do not move the watermark past the ends of longer windows.
    wanted = [row for row in expected.to_pylist() if row["window_end"] < end]
    results = [row for row in rows if not row["late"] and row["window_end"] < end]
    for row in results:
        del row["late"]
    assert len(results) == len(wanted) > 0
    counted = [Counter(tuple(row.values()) for row in some) for some in (results, wanted)]
    assert counted[0] == counted[1]


def on_time(folder: Path, *sides: str) -> list[pa.Table]:
    """Return each side's rows that are not late in a query that reads only these sides."""
    files = _files(folder)
    files = {side: files[side] for side in sides}
    return _used(files, _late(files, restarted=False))


def _files(folder: Path) -> dict[str, list[pa.Table]]:
    return {side: [*map(pq.read_table, sorted((folder / side).iterdir()))] for side in SIDES}


def _late(files: dict[str, list[pa.Table]], *, restarted: bool) -> set[tuple[str, int]]:
    """Return sides and values of the rows that are late, or that may be late if queries restart."""
    return {
        (side, v)
        for side, tables in files.items()
        for batch, table in enumerate(tables)
        for v in table.filter(
            pc.less(_micros(table), _watermark({side: tables} if restarted else files, batch))
        )["v"].to_pylist()
    }


def _used(files: dict[str, list[pa.Table]], late: set[tuple[str, int]]) -> list[pa.Table]:
    """Return each side's rows that are not late, without those that only move the watermark."""
    sides = []
    for side, tables in files.items():
        table = pa.concat_tables(tables[:-1])
        kept = [(side, v) not in late for v in table["v"].to_pylist()]
        sides.append(table.filter(pa.array(kept)))
    return sides


def _micros(table: pa.Table) -> pa.ChunkedArray:
    return table["ts"].cast(pa.int64())


def _watermark(files: dict[str, list[pa.Table]], batch: int) -> int:
    """Return Spark's watermark: the largest time of the slower side so far, less the delay."""
    if batch == 0:
        return -(2**62)
    times = [pc.max(_micros(pa.concat_tables(tables[:batch]))).as_py() for tables in files.values()]
    return (min(times) // 1_000 - DELAY) * 1_000


def _values(row: dict[str, Any]) -> tuple[Any, Any]:
    return row["v"], row.get("v_right")


def _counted(rows: list[dict[str, Any]]) -> Counter[Any]:
    # Values are unique, so they identify rows.
    return Counter((row["k"], *_values(row)) for row in rows)


def kill_workers(java: int, *, daemon: bool) -> int:
    """Kill the Python workers of a JVM, and optionally their daemon, and return their number."""
    parents, names = {}, {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                status = (process / "stat").read_text().rpartition(")")[2].split()
                names[int(process.name)] = (process / "cmdline").read_bytes()
                parents[int(process.name)] = int(status[1])
            except OSError:
                continue
    doomed = [
        pid
        for pid, name in names.items()
        if b"pyspark.worker" in name
        and java in _ancestors(pid, parents)
        and (daemon or parents[parents[pid]] == java)
    ]
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    return len(doomed)


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    found = []
    while pid in parents:
        pid = parents[pid]
        found.append(pid)
    return found
