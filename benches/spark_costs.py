"""Measures the CPU time of all processes of a Spark query, and its wall-clock time.

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
    """Return a session on this machine, whose workers run this Python."""
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
    """Return the number of rows, and a sum of their hashes that does not depend on their order."""
    columns = sorted(rows.columns)
    row = rows.select(F.pmod(F.xxhash64(*columns), F.lit(1 << 24)).alias("h"))
    [(count, total)] = row.agg(F.count("*"), F.sum("h")).collect()
    return count, total


class Cost(NamedTuple):
    """CPU seconds and wall-clock seconds."""

    cpu: float
    wall: float
    whole: bool = True

    def __str__(self) -> str:
        """Return the text of a table cell."""
        return f"{'' if self.whole else '> '}{self.cpu:.1f} ({self.wall:.1f})"


class Process(NamedTuple):
    """The name of a process, and its clock ticks so far."""

    name: str
    ticks: int


# The last known state of each process, because the kernel forgets Python workers that have ended.
SEEN: dict[int, Process] = {}


def cpu_seconds() -> float:
    """Return the CPU time so far of this process and all its descendants, including Spark."""
    return sum(cpu_by_name().values())


def cpu_by_name() -> dict[str, float]:
    """Return the CPU time by process name; this process has an empty name."""
    parents, processes = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except ProcessLookupError:  # the process has ended
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
    """Return the cost of planning and running a query and reading all its rows."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    query().write.format("noop").mode("overwrite").save()
    return Cost(cpu_seconds() - cpu, time.perf_counter() - begin)


def turns(queries: dict[str, Callable[[], DataFrame]], repeat: int) -> dict[str, list[Cost]]:
    """Return the costs of all queries, which run alternately in order and in reverse order."""
    runs: dict[str, list[Cost]] = {name: [] for name in queries}
    for turn in range(repeat):
        for name in [*queries][:: -1 if turn % 2 else 1]:
            runs[name].append(once(queries[name]))
    return runs


def in_turns(queries: dict[str, Callable[[], DataFrame]], repeat: int) -> dict[str, Cost]:
    """Return the median costs of all queries."""
    return {
        name: Cost(
            statistics.median(cost.cpu for cost in costs),
            statistics.median(cost.wall for cost in costs),
        )
        for name, costs in turns(queries, repeat).items()
    }


def spread(costs: list[Cost]) -> str:
    """Return a table cell with the median, minimum and maximum of the CPU seconds."""
    seconds = sorted(cost.cpu for cost in costs)
    return f"{statistics.median(seconds):.1f} ({seconds[0]:.1f} to {seconds[-1]:.1f})"


def at_most(seconds: float, query: Callable[[], DataFrame], session: SparkSession) -> Cost:
    """Return the cost of one run, which is stopped at a wall-clock limit."""
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
