"""Costs of queries on Spark: the processor time of all its processes, and the time by the clock.

Linux only.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame


def local_session(
    threads: int, memory: str, shuffle_partitions: int, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on this machine, whose workers run this Python; the settings come last."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{threads}]")
    common = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": shuffle_partitions,
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in {**common, **(settings or {})}.items():
        builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def fingerprint(rows: DataFrame) -> tuple[int, int]:
    """Number of rows, and a sum of their hashes that does not depend on their order."""
    columns = sorted(rows.columns)
    row = rows.select(F.pmod(F.xxhash64(*columns), F.lit(1 << 24)).alias("h"))
    [(count, total)] = row.agg(F.count("*"), F.sum("h")).collect()
    return count, total


class Cost(NamedTuple):
    """Seconds on processors and by the clock."""

    cpu: float
    wall: float
    whole: bool = True

    def __str__(self) -> str:
        """As a cell of the table."""
        return f"{'' if self.whole else '> '}{self.cpu:.1f} ({self.wall:.1f})"


class Process(NamedTuple):
    """What a process is called, and its clock ticks so far."""

    name: str
    ticks: int


# Processes as they were last seen: the kernel forgets a Python worker that ends.
SEEN: dict[int, Process] = {}


def cpu_seconds() -> float:
    """Processor time of this process and all below it so far: Spark, and Spark's workers."""
    return sum(cpu_by_name().values())


def cpu_by_name() -> dict[str, float]:
    """The same, by what processes are called; this one is called ``."""
    parents, processes = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except ProcessLookupError:  # it has ended
            continue
        number, fields = int(stat.parent.name), tail.split()
        name = "" if number == os.getpid() else head.partition("(")[2]
        parents[number] = int(fields[1])
        processes[number] = Process(name, int(fields[11]) + int(fields[12]))

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_ours(parents[process]))

    SEEN.update((number, process) for number, process in processes.items() if is_ours(number))
    seconds: dict[str, float] = {}
    for process in SEEN.values():
        spent = process.ticks / os.sysconf("SC_CLK_TCK")
        seconds[process.name] = seconds.get(process.name, 0.0) + spent
    return seconds


def once(query: Callable[[], DataFrame]) -> Cost:
    """What it costs to plan and run the query and take all its rows."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    query().write.format("noop").mode("overwrite").save()
    return Cost(cpu_seconds() - cpu, time.perf_counter() - begin)


def turns(queries: dict[str, Callable[[], DataFrame]], repeat: int) -> dict[str, list[Cost]]:
    """The costs of all queries, which come in one order and in the reverse one by turns."""
    runs: dict[str, list[Cost]] = {name: [] for name in queries}
    for turn in range(repeat):
        for name in [*queries][:: -1 if turn % 2 else 1]:
            runs[name].append(once(queries[name]))
    return runs


def in_turns(queries: dict[str, Callable[[], DataFrame]], repeat: int) -> dict[str, Cost]:
    """Medians of the costs of all queries."""
    return {
        name: Cost(
            statistics.median(cost.cpu for cost in costs),
            statistics.median(cost.wall for cost in costs),
        )
        for name, costs in turns(queries, repeat).items()
    }


def spread(costs: list[Cost]) -> str:
    """The median of seconds on processors, and the least and the most, as a cell of a table."""
    seconds = sorted(cost.cpu for cost in costs)
    return f"{statistics.median(seconds):.1f} ({seconds[0]:.1f} to {seconds[-1]:.1f})"


def at_most(seconds: float, query: Callable[[], DataFrame], session: SparkSession) -> Cost:
    """The cost of one run, which is stopped after some time by the clock."""
    timer = threading.Timer(seconds, session.sparkContext.cancelAllJobs)
    begin, cpu = time.perf_counter(), cpu_seconds()
    timer.start()
    try:
        return once(query)
    except (PySparkException, Py4JJavaError):
        wall = time.perf_counter() - begin
        if wall < seconds:
            raise
        return Cost(cpu_seconds() - cpu, wall, whole=False)
    finally:
        timer.cancel()
