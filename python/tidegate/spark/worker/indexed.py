"""Joins the rows of a Spark partition with an index, whose file the worker maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.spark.worker.slices import received
from tidegate.spark.worker.task import in_chunks, threads

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate._tidegate import JoinQuery
    from tidegate.slices.indexed import IndexFile
    from tidegate.spark.worker.task import Batches, Output


@dataclass(frozen=True)
class IndexTask:
    """The task that joins a partition's rows with an index. Instances are sent to the workers."""

    file: IndexFile
    left: tuple[str, ...]
    """The names of the left columns, in the order in which Spark sends them."""

    query: JoinQuery
    columns: tuple[str, ...]
    """The columns to return, by their names in the native result."""

    schema: pa.Schema
    """The types that these columns have when Spark receives them."""

    output: Output

    def run(self, batches: Batches) -> Batches:
        """Join the rows in a Spark partition in chunks."""
        query = self.query.replace(threads=threads())
        for rows in in_chunks(batches):
            left = rows.rename_columns(self.left)
            with query.batches(left, self.file.index()) as found:
                for batch in found:
                    if batch.num_rows:
                        yield self.output.finished(received(batch, self.columns, self.schema))
