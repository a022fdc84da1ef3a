"""Runs calls whose tasks read the input files themselves, so that no rows are shuffled.

`plan/files.py` divides such a call into tasks, and each Spark task runs one of them. The stages
that prepare files for the tasks run during the call, because they are separate jobs. The tasks also
run during the call if their results are written to files. Otherwise, the tasks run when the result
is used.
"""

from __future__ import annotations

import atexit
import functools
import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import SparkSession

import tidegate
from tidegate.spark.driver.division import cores
from tidegate.spark.driver.jobs import described
from tidegate.spark.plan.files import Division
from tidegate.spark.worker.slices import WRITTEN, PreparationTask, Shipped, SliceTask, WritingTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.spark.plan.files import FilePlan
    from tidegate.spark.worker.task import Output, Then

# The largest and the smallest number of bytes that a task reads by default, uncompressed. The
# largest determines the memory of a worker. Starting smaller tasks would cost more than it saves.
_MOST, _LEAST = 1 << 27, 1 << 22


@dataclass(frozen=True)
class Ending:
    """The arguments that determine how a call's result is used, but not which rows it contains."""

    then: Then | None = None
    then_schema: StructType | str | None = None
    sink: str | None = None

    def __post_init__(self) -> None:
        """Reject a sink whose files would not contain the result."""
        if self.sink is not None and not isinstance(self.sink, str):
            message = f"sink: expected the path of a folder, got {self.sink!r}"
            raise TypeError(message)
        if self.sink is not None and self.then is not None:
            message = "sink: tasks write the rows of the result to files, and `then` would replace "
            message += "these rows; give one of them"
            raise tidegate.TidegateError(message)


def division(session: SparkSession, partitions: int | None, scratch: str | None) -> Division:
    """Return a call's division: its number of tasks and the folder for its preparations."""

    def count(size: int) -> int:
        if partitions is not None:
            return partitions
        used = max(1, min(cores(session), size // _LEAST))
        return used * max(1, math.ceil(size / (_MOST * used)))

    if scratch is not None and not isinstance(scratch, str):
        message = f"scratch: expected the path of a folder, got {scratch!r}"
        raise TypeError(message)
    if scratch is None and (session.conf.get("spark.master", None) or "").startswith("local"):
        scratch = _temporary()
    return Division(count, scratch)


@functools.cache
def _temporary() -> str:
    """Return a folder on this machine, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="tidegate-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def active() -> SparkSession:
    """Return the session in which to run a call that has no DataFrames."""
    session = SparkSession.getActiveSession()
    if session is None:
        message = "the inputs are files, and there is no active Spark session to run their tasks; "
        message += "create one with SparkSession.builder.getOrCreate()"
        raise tidegate.TidegateError(message)
    return session


def results(plan: FilePlan, output: Output, schema: StructType) -> DataFrame:
    """Return the task results as a DataFrame."""
    _prepare(plan)
    task = SliceTask(Shipped.of(plan.tasks), plan.columns, plan.schema, output)
    return _one_each(plan.session, len(plan.tasks.tasks), task.run, "tidegate_files", schema)


def written(plan: FilePlan, folder: str) -> DataFrame:
    """Write the task results to files, and return one row per file."""
    if "://" not in folder:
        # Workers may have other working directories.
        folder = str(Path(folder).absolute())
        Path(folder).mkdir(parents=True, exist_ok=True)
    missing = frozenset(task.number for task in plan.tasks.missing(folder))
    if missing:
        _prepare(plan)
    task = WritingTask(Shipped.of(plan.tasks), folder, missing)
    session, count = plan.session, len(plan.tasks.tasks)
    with described(session, f"write {count:,} files"):
        rows = _one_each(session, count, task.run, "tidegate_write", WRITTEN).toArrow()
    return session.createDataFrame(rows.sort_by("task").to_pandas(), WRITTEN)


def _one_each(
    session: SparkSession,
    count: int,
    work: Callable[..., object],
    name: str,
    schema: StructType | str,
) -> DataFrame:
    """Run a function once for each number below `count`, in a separate Spark task."""
    numbers = session.range(0, count, 1, count)
    return numbers.mapInArrow(on_worker(work, name), schema)  # type: ignore[arg-type]


def _prepare(plan: FilePlan) -> None:
    """Run the stages that write files for the tasks."""
    *stages, _ = plan.tasks.stages
    for number, stage in enumerate(stages, 1):
        work = PreparationTask(tuple(map(cloudpickle.dumps, stage)))
        with described(plan.session, f"prepare files, stage {number} of {len(stages)}"):
            _one_each(plan.session, len(stage), work.run, "tidegate_prepare", "id bigint").count()
