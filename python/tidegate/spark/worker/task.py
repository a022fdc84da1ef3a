"""Runs one native join for a partition's rows in a Python worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

import tidegate
from tidegate.spark.worker.pack import LEFT, RIGHT, Pack, unpacked

if TYPE_CHECKING:
    from tidegate._tidegate import JoinQuery
    from tidegate.spark.worker.order import Order

Then = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table]
Batches = Iterator[pa.RecordBatch]

# The number of bytes that a task joins at a time with a side that it has in full. It equals the
# size limit for a side that is sent in full, so preparing that side again costs no more than
# joining the rows.
_CHUNK = 1 << 26


def on_worker(work: Callable[[Batches], Batches], name: str) -> Callable[[Batches], Batches]:
    """Set the name that Spark's plans show for a function, and make the function's errors clear.

    Spark shows an error's traceback. A traceback entirely within this package does not help the
    user, so it is removed.
    """
    pickled: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    load = loader()

    # These functions are pickled by value, as `loader` explains.
    def is_ours(error: Exception) -> bool:
        trace = error.__traceback__
        while trace is not None:
            if not trace.tb_frame.f_globals.get("__name__", "").startswith("tidegate."):
                return False
            trace = trace.tb_next
        return type(error).__module__.startswith("tidegate")

    def run(batches: Batches) -> Batches:
        try:
            yield from load(pickled)(batches)
        except Exception as error:
            if not is_ours(error):
                raise
            if "row " in str(error):
                error.add_note("Row numbers count the rows of a side within this Spark task.")
            raise error.with_traceback(None) from None

    run.__name__ = name
    return run


def loader() -> Callable[[bytes], Any]:
    """Return a function that unpickles an object, with a clear error if the package is missing.

    The function itself is pickled by value, because a worker without the package cannot import it.
    """
    version = tidegate.__version__

    def load(pickled: bytes) -> Any:  # noqa: ANN401 - whatever was pickled
        import pickle  # noqa: PLC0415
        import sys  # noqa: PLC0415

        remedy = "install the same version of tidegate on every node, "
        remedy += "or set PYSPARK_PYTHON to a Python that has it"
        try:
            import tidegate  # noqa: PLC0415
        except ImportError as error:
            message = f"{sys.executable} cannot import tidegate ({error}); {remedy}"
            raise ImportError(message) from error
        if tidegate.__version__ != version:
            message = (
                f"tidegate {version} planned this call, but {sys.executable} has "
                f"{tidegate.__version__}; {remedy}"
            )
            raise tidegate.TidegateError(message)
        from tidegate.spark.worker.garbage_collection import settle  # noqa: PLC0415 - checked above

        made = pickle.loads(pickled)  # noqa: S301 - our own pickle
        settle()
        return made

    return load


@dataclass(frozen=True)
class Output:
    """Converts the batches of a native result for Spark. Instances are sent to the workers."""

    names: tuple[str, ...]
    then: Then | None
    schema: pa.Schema | None

    def finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the names that Spark expects, after `then` has processed it."""
        batch = batch.rename_columns(list(self.names))
        if self.then is None or self.schema is None:
            return batch
        result = self.then(batch)
        if not isinstance(result, pa.RecordBatch | pa.Table):
            message = "`then` must return a pyarrow.RecordBatch or pyarrow.Table, but it returned "
            message += f"{type(result)}"
            raise TypeError(message)
        if result.schema.names != self.schema.names:
            message = (
                f"`then` returned the columns {result.schema.names}, but `then_schema` has "
                f"{self.schema.names}"
            )
            raise tidegate.SchemaError(message)
        columns = map(_cast, result.columns, self.schema)
        return pa.RecordBatch.from_arrays([*columns], schema=self.schema)


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Return a column from `then` in the type that Spark expects."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        message = f"`then` returned a column {field.name!r} of type {column.type}, which cannot be "
        message += f"cast to {field.type}, its type in `then_schema`: {error}"
        raise tidegate.SchemaError(message) from error


@dataclass(frozen=True)
class Call:
    """A native call and the conversion of its result. Instances are sent to the workers."""

    query: JoinQuery
    output: Output

    def run(self, left: pa.Table, right: pa.Table, home: tuple[str, str] | None = None) -> Batches:
        """Join two tables. `home` names the columns that distinguish rows at home from copies."""
        query = self.query.replace(threads=threads())
        if home is not None:
            query = query.replace(columns=[*query.arguments["columns"], *home])
        with query.batches(left, right) as batches:
            del left, right
            for batch in batches:
                rows = batch if home is None else at_home(batch, *home)
                if rows.num_rows:
                    yield self.output.finished(rows)


def in_chunks(batches: Batches) -> Iterator[pa.Table]:
    """Yield the rows as non-empty tables of about `_CHUNK` bytes."""
    collected: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            collected.append(batch)
            size += batch.nbytes
        if size >= _CHUNK:
            yield pa.Table.from_batches(collected)
            collected, size = [], 0
    if collected:
        yield pa.Table.from_batches(collected)


def by_partition(batches: Batches) -> Iterator[list[Pack]]:
    """Yield the packs in a Spark partition, grouped by layout partition."""
    partitions: dict[int, list[Pack]] = {}
    for batch in batches:
        for pack in unpacked(batch):
            partitions.setdefault(pack.partition, []).append(pack)
    while partitions:
        yield partitions.popitem()[1]


@dataclass(frozen=True)
class Task:
    """The task that joins the packs in a partition. Instances are sent to the workers.

    `order` is the required order of right rows, if the result depends on it.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    home: tuple[str, str] | None
    call: Call
    order: Order | None = None

    def run(self, batches: Batches) -> Batches:
        """Join the rows in a Spark partition, which may contain several layout partitions."""
        for packs in by_partition(batches):
            yield from self._joined(packs)

    def _joined(self, packs: list[Pack]) -> Batches:
        sides = [self._side(packs, LEFT), self._side(packs, RIGHT)]
        packs.clear()
        yield from self.call.run(sides.pop(0), sides.pop(), self.home)

    def _side(self, packs: list[Pack], side: int) -> pa.Table:
        schema = self.schemas[side]
        mine = [pack for pack in packs if pack.side % 2 == side]
        parts = []
        for pack in mine or [Pack(side, 0, schema.empty_table())]:
            rows = pack.rows.rename_columns(schema.names)
            if self.home is not None:
                is_at_home = pa.array(np.full(rows.num_rows, pack.side == side))
                rows = rows.append_column(self.home[side], is_at_home)
            parts.append(rows)
        # A join of a single chunk saves more time than the copy takes.
        table = pa.concat_tables(parts).combine_chunks()
        return table if side == LEFT or self.order is None else self.order.put(table)


def threads() -> int:
    """Return the number of cores that Spark assigns to this task (`spark.task.cpus`)."""
    from pyspark import TaskContext  # noqa: PLC0415 - only a worker has a task

    context = TaskContext.get()
    return 1 if context is None else context.cpus()


def at_home(batch: pa.RecordBatch, left_home: str, right_home: str) -> pa.RecordBatch:
    """Return the rows of a full join that this partition reports, without the two home columns.

    Pairs and unmatched left rows are reported where the left row is at home. An unmatched right row
    is reported where it is at home. In such a result row, the left row's flag is null.
    """
    names = batch.schema.names
    left, right = (batch.column(names.index(name)) for name in (left_home, right_home))
    unmatched = left.is_null().to_numpy(zero_copy_only=False)
    is_at_home = np.where(
        unmatched,
        right.fill_null(False).to_numpy(zero_copy_only=False),  # noqa: FBT003 - pyarrow's own
        left.fill_null(False).to_numpy(zero_copy_only=False),  # noqa: FBT003
    )
    kept = [name for name in names if name not in (left_home, right_home)]
    return batch.filter(pa.array(is_at_home)).select(kept)
