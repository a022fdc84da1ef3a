"""Runs the tasks of a plan on files in Python workers. No rows are sent to the workers."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
from pyspark import cloudpickle

import tidegate
from tidegate.spark.worker.aggregate import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.slices.plan import TaskPlan
    from tidegate.slices.task import Range, Task, Work
    from tidegate.spark.worker.order import Order
    from tidegate.spark.worker.task import Batches, Output


class Sort(Protocol):
    """Orders a task's rows by value. Instances are sent to the workers."""

    def put(self, tables: list[pa.Table]) -> list[pa.Table]:
        """Return a task's inputs with their rows in the order used for DataFrames."""


@dataclass(frozen=True)
class RightByValue:
    """Orders right rows with equal times by value."""

    order: Order
    names: tuple[str, ...]
    """The columns to compare, in this order."""

    def put(self, tables: list[pa.Table]) -> list[pa.Table]:
        """Return both inputs, with the right rows in order."""
        left, right = tables
        others = [name for name in right.column_names if name not in self.names]
        return [left, self.order.put(right.select([*self.names, *others]).combine_chunks())]


@dataclass(frozen=True)
class RowsByValue:
    """Orders the rows of an aggregation by time, then by value."""

    on: str
    names: tuple[str, ...]
    days: bool

    def put(self, tables: list[pa.Table]) -> list[pa.Table]:
        """Return all streams in order."""
        rows = [table.select(self.names).combine_chunks() for table in tables]
        return [in_order(table, self.on, days=self.days) for table in rows]


@dataclass(frozen=True)
class Sorted:
    """Orders a slice's rows before the slice is processed."""

    work: Work
    sort: Sort

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the part of the result that belongs to a slice."""
        rows = self.sort.put(tables)
        tables.clear()
        yield from self.work.batches(rows, own)

    def of_slice(self, number: int, own: Range) -> Work:
        """Return what the task of a slice does."""
        return replace(self, work=self.work.of_slice(number, own))


class Written(NamedTuple):
    """A task's report about the file that it has written."""

    task: int
    path: str
    rows: int
    digest: str


WRITTEN = "task bigint, path string, rows bigint, digest string"


@dataclass(frozen=True)
class Shipped:
    """A plan in the form that is sent to the workers.

    All tasks of a plan share its schemas, files and query, so the plan is much smaller than its
    pickled tasks. A worker unpickles it only once.
    """

    name: str
    packed: bytes

    @classmethod
    def of(cls, plan: TaskPlan) -> Shipped:
        """Pack a plan."""
        # Functions of the user's own module are pickled by value.
        # The preparations have already run.
        plan = plan.with_call(preparations=())
        pickled: bytes = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        return cls(plan.tasks[0].name, zlib.compress(pickled, 1))

    def task(self, number: int) -> Task:
        """Return a task."""
        plan = _unpacked.get(self.name)
        if plan is None:
            # A worker rarely runs the tasks of two plans in turn.
            _unpacked.clear()
            plan = pickle.loads(zlib.decompress(self.packed))  # noqa: S301 - our own pickle
            _unpacked[self.name] = plan
        return plan.tasks[number]


_unpacked: dict[str, TaskPlan] = {}


def _tasks(shipped: Shipped, batches: Batches) -> Iterator[Task]:
    """Yield the tasks whose numbers a Spark partition contains."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield shipped.task(number)


@dataclass(frozen=True)
class SliceTask:
    """Runs tasks and returns their results. Instances are sent to the workers."""

    shipped: Shipped
    columns: tuple[str, ...]
    """The columns to return, by their names in the task results."""

    schema: pa.Schema
    """The types that these columns have when Spark receives them."""

    output: Output

    def run(self, batches: Batches) -> Batches:
        """Yield the results of a Spark partition's tasks."""
        for task in _tasks(self.shipped, batches):
            for batch in task.run():
                yield self.output.finished(received(batch, self.columns, self.schema))


def received(batch: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Return the given columns of a native result in the types in which Spark receives them."""
    fields = zip(columns, schema, strict=True)
    found = [_cast(batch.column(name), field, name) for name, field in fields]
    return pa.RecordBatch.from_arrays(found, schema=schema)


def _cast(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    """Return a column, cast to the type in which Spark receives it."""
    if column.type == field.type:
        return column
    try:
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        return column.cast(field.type)
    except pa.ArrowException as error:
        message = f"column `{name}` is {column.type}, and Spark would lose part of its values; "
        message += f"leave it out with columns=, or cast it in the files ({error})"
        raise tidegate.SchemaError(message) from None


@dataclass(frozen=True)
class PreparationTask:
    """Runs a stage's preparations. Instances are sent to the workers."""

    packed: tuple[bytes, ...]

    def run(self, batches: Batches) -> Batches:
        """Run the preparations that a Spark partition contains, and yield their numbers."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                pickle.loads(self.packed[number]).run()  # noqa: S301 - our own pickle
            yield batch


@dataclass(frozen=True)
class WritingTask:
    """Runs tasks and writes their results to files. Instances are sent to the workers."""

    shipped: Shipped
    folder: str
    missing: frozenset[int]
    """The numbers of the tasks whose files were not written by an earlier run."""

    def run(self, batches: Batches) -> Batches:
        """Yield one row per file."""
        for task in _tasks(self.shipped, batches):
            yield pa.RecordBatch.from_pylist([self._written(task)._asdict()])

    def _written(self, task: Task) -> Written:
        path = f"{self.folder}/{task.name}"
        if task.number in self.missing:
            path = task.write(self.folder)
        digest = tidegate.Digest(task.schema)
        digest.update(path, threads=1)
        return Written(task.number, path, digest.rows, digest.sum)
