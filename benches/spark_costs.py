"""What queries cost on Spark: the time of all its processes on processors, and by the clock.

Linux only.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


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


# Clock ticks of each process below this one when it was last seen: the kernel forgets those of a
# Python worker that ends.
TICKS: dict[int, int] = {}


def cpu_seconds() -> float:
    """Processor time of this process and all below it so far: Spark, and Spark's workers."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except ProcessLookupError:  # it has ended
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = int(fields[11]) + int(fields[12])

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_ours(parents[process]))

    TICKS.update((process, ticks[process]) for process in ticks if is_ours(process))
    return sum(TICKS.values()) / os.sysconf("SC_CLK_TCK")


def once(query: Callable[[], DataFrame]) -> Cost:
    """What it costs to plan and run the query and take all its rows."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    query().write.format("noop").mode("overwrite").save()
    return Cost(cpu_seconds() - cpu, time.perf_counter() - begin)


def in_turns(queries: dict[str, Callable[[], DataFrame]], repeat: int) -> dict[str, Cost]:
    """Medians of the costs of all queries."""
    runs = [{name: once(query) for name, query in queries.items()} for _ in range(repeat)]
    return {
        name: Cost(
            statistics.median(run[name].cpu for run in runs),
            statistics.median(run[name].wall for run in runs),
        )
        for name in queries
    }


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
