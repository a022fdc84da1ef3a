"""The Parquet files that tasks read: input files, and files that a first stage writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from tidegate import TidegateError
from tidegate.io.addresses import place_of
from tidegate.io.files import Format, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

BATCH_ROWS = 1 << 18

ALL = pc.scalar(True)  # noqa: FBT003 - pyarrow's own


@dataclass(frozen=True)
class File:
    """A Parquet file, as it was when the plan was created."""

    path: str
    name: str
    """The address to show in messages."""

    filesystem: pafs.FileSystem
    size: int | None
    modified: int | None
    """The last modification time in nanoseconds, if the file system reports it."""

    values: pc.Expression
    """The column values that folder names encode."""

    @property
    def identity(self) -> str:
        """A string that changes if the file changes."""
        return f"{self.path}\0{self.size}\0{self.modified}\0"

    def check(self) -> None:
        """Raise an error if the file has been changed or removed since the plan was created."""
        found = self._found()
        if found.type == pafs.FileType.NotFound:
            message = f"{self.name}: the file has been removed since the plan was created; "
            message += "create a new plan"
            raise TidegateError(message)
        if (found.size, found.mtime_ns) != (self.size, self.modified):
            message = f"{self.name}: the file has changed since the plan was created; "
            message += "create a new plan"
            raise TidegateError(message)

    def _found(self) -> pafs.FileInfo:
        with reading(self.name, Format.PARQUET):
            return self.filesystem.get_file_info(self.path)

    def batches(
        self, numbers: Sequence[int], schema: pa.Schema, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in some row groups, in file order."""
        yield from self._batches(self._fragment(), numbers, schema, where)

    def by_row_group(
        self, numbers: Sequence[int], schema: pa.Schema
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the rows in these row groups, one row group at a time."""
        whole = self._fragment()
        return (self._batches(whole, [number], schema, None) for number in numbers)

    def _fragment(self) -> ds.ParquetFileFragment:
        with reading(self.name, Format.PARQUET):
            whole = ds.ParquetFileFormat().make_fragment(self.path, self.filesystem, self.values)
            # Reads the footer, which subsets of the fragment share.
            whole.ensure_complete_metadata()
        return whole

    def _batches(
        self,
        whole: ds.ParquetFileFragment,
        numbers: Sequence[int],
        schema: pa.Schema,
        where: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        with reading(self.name, Format.PARQUET):
            # `make_fragment` does not keep the order of row groups.
            scanner = whole.subset(row_group_ids=[*numbers]).scanner(
                schema=schema,
                columns=schema.names,
                filter=where,
                batch_size=BATCH_ROWS,
                use_threads=False,
            )
            yield from scanner.to_batches()


class PreparedFile(File):
    """A file that a preparation step writes.

    The file name depends on the plan and the input, so a file with this name contains the rows that
    the plan expects.
    """

    @staticmethod
    def at(address: str) -> PreparedFile:
        """Return the file that a preparation step writes to a path or URL."""
        place = place_of(address, mapped=False)
        return PreparedFile(place.path, place.address, place.filesystem, None, None, ALL)

    def check(self) -> None:
        """Raise an error if the file has not been written."""
        if self._found().type == pafs.FileType.NotFound:
            message = f"{self.name}: the file has not been written yet or has been removed; "
            message += "run all objects in the plan's stages, stage by stage"
            raise TidegateError(message)
