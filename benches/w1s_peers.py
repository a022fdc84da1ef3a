"""Measures workload W1s on Spark, Pathway, Flink and tidegate.

The tables of W1 are pushed in chunks. The system's sink keeps the pairs, which are compared with
the reference. Of two runs in one process, the second counts, which excludes startup and
compilation. The script prints Markdown and writes every figure as JSON to benches/out/.

    python benches/w1s_peers.py --systems tidegate,spark --rows 100000 --keys 10,1000
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import w1s
import workload
from flink import Flink

if TYPE_CHECKING:
    from collections.abc import Callable

    from workload import Inputs

HERE = Path(__file__).parent
PIECE = 10_000
THREADS = 2

Run = tuple[float, list[pa.RecordBatch]]
"""The seconds and the pairs of a run."""


def tidegate(inputs: Inputs) -> Run:
    """Run `IntervalJoin`, polling results after each chunk."""
    left, right = (w1s.pieces(table, PIECE) for table in (inputs.left, inputs.right))
    joining = w1s.join(w1s.Streams(inputs, workload.Fingerprint(0, 0), 0), "auto", THREADS)
    start = time.perf_counter()
    batches = list(w1s.feed(joining, left, right))
    return time.perf_counter() - start, batches


def spark(inputs: Inputs) -> Run:
    """Run a stream-stream join of files, one per side and micro-batch, into a table in memory."""
    session: Any = (
        importlib.import_module("pyspark.sql")
        .SparkSession.builder.master(f"local[{THREADS}]")
        .config("spark.sql.shuffle.partitions", str(THREADS))
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for name, table, ts in (("left", inputs.left, "t"), ("right", inputs.right, "t2")):
            path = Path(folder, name)
            path.mkdir()
            for number, piece in enumerate(w1s.pieces(table, PIECE)):
                times = piece.column(1).cast(pa.timestamp("us", tz="UTC"))
                piece = piece.set_column(1, ts, times)  # noqa: PLW2901 - the same, as Spark has it
                pq.write_table(pa.table(piece), path / f"{number:05}.parquet")
            schema = session.read.parquet(str(path)).schema
            stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            sides.append(stream.parquet(str(path)).withWatermark(ts, "0 seconds"))
        interval = f"INTERVAL {inputs.upper} MICROSECONDS"
        condition = f"k = k2 AND t2 >= t - {interval} AND t2 <= t + {interval}"
        functions: Any = importlib.import_module("pyspark.sql.functions")
        pairs = sides[0].join(sides[1], functions.expr(condition))
        writing = pairs.writeStream.format("memory").queryName("pairs").trigger(availableNow=True)
        start = time.perf_counter()
        writing.start().awaitTermination()
        taken = time.perf_counter() - start
    found: pa.Table = session.table("pairs").toArrow().select(workload.COLUMNS)
    for at in (1, 5):
        times = found.column(at).cast(pa.timestamp("us")).cast(pa.int64())
        found = found.set_column(at, workload.COLUMNS[at], times)
    return taken, found.to_batches()


def pathway(inputs: Inputs) -> Run:
    """Run an interval join of two tables that arrive in chunks."""
    pw: Any = importlib.import_module("pathway")
    tables = []
    for table in (inputs.left, inputs.right):
        frame = table.to_pandas()
        frame["__time__"] = 2 * (frame.index // PIECE)
        tables.append(pw.debug.table_from_pandas(frame))
    left, right = tables
    pairs = left.interval_join(
        right,
        left.t,
        right.t2,
        pw.temporal.interval(-inputs.upper, inputs.upper),
        left.k == right.k2,
    ).select(
        *(left[name] for name in workload.LEFT),
        *(right[name] for name in workload.RIGHT),
    )
    start = time.perf_counter()
    frame = pw.debug.table_to_pandas(pairs, include_id=False)
    taken = time.perf_counter() - start
    return taken, pa.Table.from_pandas(
        frame[list(workload.COLUMNS)], preserve_index=False
    ).to_batches()


def flink(inputs: Inputs) -> Run:
    """Run an interval join of CSV files in Flink SQL, excluding the start of the job."""
    types = dict(zip(workload.COLUMNS, ["BIGINT", "BIGINT", "BIGINT", "DOUBLE"] * 2, strict=True))
    # Flink's times are in milliseconds. They bound the state, and exact times decide the matches.
    interval = f"INTERVAL '{inputs.upper / 1e6 + 0.002:.3f}' SECOND(3, 3)"
    session = Flink(THREADS)
    for name, table in (("left", inputs.left), ("right", inputs.right)):
        key, ts, *values = table.column_names
        columns = f"""
            {key} BIGINT, {ts} BIGINT, {values[0]} BIGINT, {values[1]} DOUBLE,
            {ts}_ms AS TO_TIMESTAMP_LTZ({ts} / 1000, 3), WATERMARK FOR {ts}_ms AS {ts}_ms
        """
        for part, rows in (("whole", table), ("head", table.slice(0, 1))):
            session.add(f"{name}_{part}", rows, columns)

    def join(part: str) -> tuple[float, pa.Table]:
        query = f"""
            SELECT {", ".join(types)} FROM left_{part} JOIN right_{part} ON k = k2
            AND t2_ms BETWEEN t_ms - {interval} AND t_ms + {interval}
            AND t2 BETWEEN t - {inputs.upper} AND t + {inputs.upper}
        """  # noqa: S608 - a query of names and numbers that are ours
        start = time.perf_counter()
        found = session.insert(f"pairs_{part}", query, types)
        return time.perf_counter() - start, found

    idle, _ = join("head")
    taken, found = join("whole")
    return taken - idle, found.to_batches()


SYSTEMS: dict[str, Callable[[Inputs], Run]] = {
    "tidegate": tidegate,
    "spark": spark,
    "pathway": pathway,
    "flink": flink,
}


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="comma-separated")
    parser.add_argument("--rows", type=int, default=100_000, help="rows per side")
    parser.add_argument("--keys", default="10,1000", help="numbers of keys, comma-separated")
    options = parser.parse_args()
    figures = []
    for keys in map(int, options.keys.split(",")):
        given = w1s.streams(options.rows, keys, "uniform", late=False)
        for name in options.systems.split(","):
            for _ in range(2):
                taken, batches = SYSTEMS[name](given.inputs)
                if (found := workload.checksum(iter(batches))) != given.expected:
                    sys.exit(f"{name}, {keys} keys: expected {given.expected}, found {found}")
            rate = 2 * options.rows / taken / 1e6
            print(f"| {name} | {2 * options.rows:,} | {keys} | {rate:.3f} |", flush=True)
            figures.append({"system": name, "rows": 2 * options.rows, "keys": keys, "s": taken})
    folder = HERE / "out"
    folder.mkdir(exist_ok=True)
    (folder / "w1s-peers.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
