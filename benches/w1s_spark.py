"""Measures W1s on Spark: micro-batches of tidegate's and Spark's joins of streams.

Each micro-batch joins one file per side, all with the same number of rows, into a sink that keeps
nothing. The systems' pairs are compared on the first batches before timing, unless `--only-time` is
given because an earlier run compared them. For each system, the script prints the median time of a
micro-batch, the CPU time per batch of Spark and all its workers, and the size of the state in the
last checkpoint. The first batches are excluded, because they also start Python workers and compile.
Linux only.

With `--empty`, the script prints the median times of micro-batches that have no rows but a new
watermark. It also prints the range of the turns' medians, and the shares of planning and logs. For
comparison, it measures a Python operator without state that does nothing, which is the minimum for
any operator in Python.

    python benches/w1s_spark.py --rows 200000 --keys 1000 --batches 10
    python benches/w1s_spark.py --rows 2000 --batches 20 --empty --turns 5
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import tidegate.spark
from spark_costs import cpu_seconds, fingerprint, local_session
from w1_spark import SPAN, Case, make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Row
    from pyspark.sql.streaming.query import StreamingQuery

STORE = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
HDFS, ROCKSDB = f"{PACKAGE}.HDFSBackedStateStoreProvider", f"{PACKAGE}.RocksDBStateStoreProvider"

# The numbers of micro-batches that are compared, and that are not counted.
COMPARED = 3
WARM = 3


class System(NamedTuple):
    """A join and its state store."""

    join: Callable[[DataFrame, DataFrame, Case], DataFrame]
    store: str
    format: str


def tide(
    left: DataFrame,
    right: DataFrame,
    case: Case,
    parallelism: Literal["auto", "hybrid"] = "auto",
) -> DataFrame:
    """Join with `tidegate.spark.interval_join`, by default or with time slices per key."""
    half = np.timedelta64(case.half, "us")
    query: dict[str, Any] = {"on": ("ts", "rts"), "by": {"key": "rkey"}}
    query |= {"lower": -half, "upper": half}
    return tidegate.spark.interval_join(left, right, **query, parallelism=parallelism)


def own(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Join with Spark's own join."""
    near = f"INTERVAL {case.half} MICROSECONDS"
    return left.join(right, F.expr(f"key = rkey AND rts >= ts - {near} AND rts <= ts + {near}"))


class Nothing(StatefulProcessor):
    """An operator that has no state and returns nothing."""

    def init(self, handle: object) -> None:
        """Declare no state."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: object,  # noqa: ARG002 - as all others
        rows: Iterator[Row],
        timerValues: object,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        """Read the rows."""
        for _ in rows:
            pass
        return iter(())

    def close(self) -> None:
        """Close nothing."""


def nothing(left: DataFrame, right: DataFrame, _: Case) -> DataFrame:
    """Pass rows of both sides, in as many groups as tidegate has buckets, to `Nothing`."""
    spread = "cast(pmod(hash({}), 2) as int) bucket"
    rows = left.selectExpr(spread.format("key")).union(right.selectExpr(spread.format("rkey")))
    grouped = rows.groupBy("bucket")
    return grouped.transformWithState(Nothing(), "nothing long", "Append", "EventTime")


NOTHING = "nothing, in Python"

SYSTEMS = {
    "tidegate": System(tide, ROCKSDB, "2"),
    "tidegate, hybrid": System(partial(tide, parallelism="hybrid"), ROCKSDB, "2"),
    "Spark, RocksDB, format 4": System(own, ROCKSDB, "4"),
    "Spark, RocksDB, default format": System(own, ROCKSDB, "2"),
    "Spark, defaults": System(own, HDFS, "2"),
}

# The systems whose empty micro-batches are timed.
OF_EMPTY = {**SYSTEMS, NOTHING: System(nothing, ROCKSDB, "2")}


def cut(folder: Path, batches: int) -> int:
    """Split both sides into files; return the time up to which compared batches are final."""
    ends = []
    for name, on in (("left", "ts"), ("right", "rts")):
        table = pq.read_table(folder / f"{name}.parquet")
        at = table.schema.names.index(on)
        table = table.set_column(at, on, table[on].cast(pa.timestamp("us", "UTC")))
        rows = table.num_rows // batches
        for part in ("compared", "timed"):
            (folder / part / name).mkdir(parents=True)
        for batch in range(batches):
            path = folder / "timed" / name / f"{batch:04}.parquet"
            pq.write_table(table.slice(batch * rows, rows), path)
            # Spark reads files in the order of their modification times.
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))
            if batch < COMPARED:
                (folder / "compared" / name / path.name).hardlink_to(path)
        ends.append(table[on][COMPARED * rows - 1].value)
    return int(min(ends)) // 1_000 * 1_000


def joined(session: SparkSession, system: System, case: Case, folder: Path) -> DataFrame:
    """Return the join of the files in a folder."""
    session.conf.set(STORE, system.store)
    session.conf.set(FORMAT, system.format)
    sides: list[DataFrame] = []
    for name, on in (("left", "ts"), ("right", "rts")):
        path = str(folder / name)
        stream = session.readStream.schema(session.read.parquet(path).schema)
        files = stream.option("maxFilesPerTrigger", 1).parquet(path)
        sides.append(files.withWatermark(on, "0 seconds"))
    left, right = sides
    return system.join(left, right, case)


def pairs(session: SparkSession, system: System, case: Case, folder: Path, end: int) -> list[int]:
    """Return the number of pairs before a time, and the sum of their hashes."""
    total = [0, 0]

    def add(frame: DataFrame, _: int) -> None:
        later = F.unix_micros(F.greatest("ts", "rts"))
        for at, part in enumerate(fingerprint(frame.where(later < end))):
            total[at] += part or 0

    with tempfile.TemporaryDirectory() as checkpoint:
        writer = joined(session, system, case, folder / "compared").writeStream.foreachBatch(add)
        finished(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
    return total


def finished(query: StreamingQuery) -> StreamingQuery:
    """Run a query to its end, and return it."""
    query.awaitTermination()
    return query


def timed(session: SparkSession, system: System, case: Case, folder: Path) -> list[str]:
    """Return the cells of the table."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = joined(session, system, case, folder / "timed").writeStream.format("noop")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        begin, cpu = time.perf_counter(), cpu_seconds()
        query = finished(writer.start())
        wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
        state = Path(checkpoint, "state").rglob("*")
        size = sum(path.stat().st_size for path in state if path.is_file())
    busy = [progress for progress in query.recentProgress if progress["numInputRows"]]
    batches = [progress["batchDuration"] / 1_000 for progress in busy]
    median = statistics.median(batches[WARM:])
    return [f"{median:.2f}", f"{cpu / len(batches):.1f}", f"{wall:.1f}", f"{size / 1e6:.1f}"]


def landed(folder: Path, landing: Path, batch: int) -> None:
    """Move the files of a micro-batch into the input folders."""
    for name in ("left", "right"):
        (landing / name).mkdir(parents=True, exist_ok=True)
        path = Path(name, f"{batch:04}.parquet")
        (landing / path).hardlink_to(folder / "timed" / path)


def timed_empty(
    session: SparkSession, system: System, case: Case, folder: Path, batches: int
) -> list[list[float]]:
    """Return the seconds of empty micro-batches, each of which follows one with rows.

    The parts are planning, running and logs.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        landing = Path(name)
        landed(folder, landing, 0)
        writer = joined(session, system, case, landing).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(landing / "checkpoint")).start()
        for batch in range(1, batches):
            query.processAllAvailable()
            landed(folder, landing, batch)
        query.processAllAvailable()
        times = [
            progress["durationMs"]
            for progress in query.recentProgress
            if not progress["numInputRows"] and "addBatch" in progress["durationMs"]
        ][WARM:]
        query.stop()
    parts = ["triggerExecution"], ["queryPlanning"], ["addBatch"], ["walCommit", "commitOffsets"]
    return [[sum(one.get(part, 0) for part in some) / 1_000 for one in times] for some in parts]


def cells_of_empty(turns: list[list[list[float]]]) -> list[str]:
    """Return the cells of the table: medians, and the range of the turns' total medians."""
    together = [[time for turn in turns for time in turn[part]] for part in range(len(turns[0]))]
    medians = [f"{statistics.median(times):.3f}" for times in together]
    wholes = sorted(statistics.median(turn[0]) for turn in turns)
    medians[0] += f" ({wholes[0]:.3f} to {wholes[-1]:.3f})"
    return [str(len(together[0])), *medians]


HEADS = {
    False: "| system | batch, s | CPU per batch, s | all, s | state, MB |\n"
    "| --- | --: | --: | --: | --: |",
    True: "| system | empty batches | one, s | planning, s | running, s | logs, s |\n"
    "| --- | --: | --: | --: | --: | --: |",
}


def measure(session: SparkSession, rows: int, keys: int, arguments: argparse.Namespace) -> None:
    """Return a table of all systems; raise an error if two of them disagree."""
    batches = arguments.batches
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = make(rows * batches, keys, skewed=False, hot=arguments.hot, folder=folder)
        end = cut(folder, batches)
        print(
            f"\n{rows:,} rows per side in each of {batches} micro-batches, {keys:,} keys"
            f"{', half of the rows on one' if arguments.hot else ''}, interval "
            f"{2 * case.half / SPAN * batches:.3f} of a batch's time\n\n"
            f"{HEADS[arguments.empty]}",
            flush=True,
        )
        reference = None
        for label in arguments.systems:
            found = reference
            if not arguments.only_time and label != NOTHING:
                found = pairs(session, OF_EMPTY[label], case, folder, end)
                reference = reference or found
            if found != reference:
                message = f"{label} found {found}, {arguments.systems[0]} {reference}"
                raise RuntimeError(message)
            if not arguments.empty:
                cells = timed(session, OF_EMPTY[label], case, folder)
                print(f"| {label} | {' | '.join(cells)} |", flush=True)
        if arguments.empty:
            runs: dict[str, list[list[list[float]]]] = {label: [] for label in arguments.systems}
            for turn in range(arguments.turns):
                for label in arguments.systems[:: -1 if turn % 2 else 1]:
                    system = OF_EMPTY[label]
                    runs[label].append(timed_empty(session, system, case, folder, batches))
            for label, turns in runs.items():
                print(f"| {label} | {' | '.join(cells_of_empty(turns))} |", flush=True)


def main() -> None:
    """Run the cases on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--hot", action="store_true", help="put half of the rows on one key")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="6g")
    parser.add_argument(
        "--systems", nargs="+", choices=list(OF_EMPTY), help="systems; by default, all"
    )
    parser.add_argument("--only-time", action="store_true", help="do not compare pairs")
    parser.add_argument("--empty", action="store_true", help="time empty micro-batches")
    parser.add_argument("--turns", type=int, default=1, help="turns of `--empty`")
    arguments = parser.parse_args()
    arguments.systems = arguments.systems or list(OF_EMPTY if arguments.empty else SYSTEMS)
    if not arguments.empty and NOTHING in arguments.systems:
        parser.error(f"--systems: {NOTHING!r} has no pairs, so give --empty")
    if arguments.batches <= WARM:
        parser.error(f"--batches: the first {WARM} are not counted, so give more")
    session = local_session(arguments.threads, arguments.memory, arguments.threads)
    for rows in arguments.rows:
        measure(session, rows, arguments.keys, arguments)


if __name__ == "__main__":
    main()
