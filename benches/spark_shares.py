"""Splits the CPU time of W1, W2, W4 and W7 on Spark: Spark, transfer to Python, native calls.

Each query runs with a sink that reads all rows and keeps none. The script prints four CPU times.
The JVM reads, shuffles, and exchanges data with Python. The Python workers, apart from their tasks,
exchange Arrow streams and start. Packing is listed separately. Joining or aggregating consists of
the native call and the unpacking before it. Linux only.

    python benches/spark_shares.py --rows 1000000
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import w1_spark
import w2_spark
import w4_spark
import w7_spark
from spark_costs import cpu_by_name, local_session
from tidegate.spark.driver import aggregate, join, whole
from tidegate.spark.plan import aggregate as aggregate_plan
from tidegate.spark.plan import join as join_plan
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.worker.task import Batches

# The names of the tasks that pack; the others join or aggregate.
PACKING = "tidegate_pack"


class Meter:
    """Measures CPU time between starts and stops."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def start(self) -> None:
        """Start measuring."""
        self.seconds -= time.process_time()

    def stop(self) -> None:
        """Stop measuring."""
        self.seconds += time.process_time()


def timed(work: Callable[[Batches], Batches], spent: Accumulator[float]) -> Callable[..., Batches]:
    """Wrap the work so that it adds its CPU time to `spent`, without that of reading its input."""

    def run(batches: Batches) -> Batches:
        meter = Meter()

        def read() -> Batches:
            while True:
                meter.stop()
                batch = next(batches, None)
                meter.start()
                if batch is None:
                    return
                yield batch

        meter.start()
        for batch in work(read()):
            meter.stop()
            yield batch
            meter.start()
        meter.stop()
        spent.add(meter.seconds)

    return run


def shares(session: SparkSession, query: Callable[[], DataFrame]) -> list[float]:
    """Return the CPU seconds of the JVM, of worker overhead, of packing and of native calls."""
    spent = [session.sparkContext.accumulator(0.0) for _ in range(2)]

    def metered(work: Callable[[Batches], Batches], name: str) -> Callable[[Batches], Batches]:
        return on_worker(timed(work, spent[0 if name.startswith(PACKING) else 1]), name)

    with ExitStack() as stack:
        for module in (aggregate, aggregate_plan, join, join_plan, whole):
            stack.enter_context(mock.patch.object(module, "on_worker", metered))
        frame = query()
    before = cpu_by_name()
    frame.write.format("noop").mode("overwrite").save()
    after = cpu_by_name()
    java, python = (after.get(name, 0.0) - before.get(name, 0.0) for name in ("java", "python"))
    packing, call = (one.value for one in spent)
    return [java, python - packing - call, packing, call]


def queries(session: SparkSession, rows: int, folder: Path) -> dict[str, Callable[[], DataFrame]]:
    """The joins and aggregations by name."""

    def read(case: str, name: str) -> DataFrame:
        return session.read.parquet(str(folder / case / f"{name}.parquet"))

    for name in ("w1", "w2", "w4", "w7"):
        (folder / name).mkdir()
    w1 = w1_spark.make(rows, 1_000, skewed=False, hot=False, folder=folder / "w1")
    w2 = w2_spark.Case(rows, heavy=False)
    w2.write(folder / "w2")
    w4_spark.generate(rows, 40_000, folder / "w4" / "rows.parquet")
    w4_spark.define()
    found: dict[str, Callable[[], DataFrame]] = {
        "W1, 1,000 keys": functools.partial(
            w1_spark.tide, read("w1", "left"), read("w1", "right"), w1
        ),
        "W2": functools.partial(
            w2_spark.tide, read("w2", "left"), read("w2", "right"), w2, "value"
        ),
    }
    w7 = w7_spark.Case(rows, 1_000, 100)
    w7.write(folder / "w7")
    found["W7, 1,000 keys, 100 partners"] = functools.partial(
        w7_spark.tide, read("w7", "left"), read("w7", "right"), w7, "auto"
    )
    table = read("w4", "rows")
    for functions in w4_spark.FUNCTIONS:
        found[f"W4, 40,000 keys, {functions}"] = functools.partial(w4_spark.tide, table, functions)
    return found


def main() -> None:
    """Run the queries, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows per side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--only", default="", help="prefixes of query names")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings for Spark"
    )
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.set)
    session = local_session(arguments.threads, arguments.memory, 8, settings)
    print("| query | processor time, s | Spark | workers, transfer | packing | native call |")
    print("| --- | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, query in queries(session, arguments.rows, Path(folder)).items():
            if not name.startswith(arguments.only):
                continue
            shares(session, query)  # compiles, and starts workers
            parts = shares(session, query)
            total = sum(parts)
            cells = " | ".join(f"{100 * part / total:.0f} %" for part in parts)
            print(f"| {name} | {total:.2f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
