"""The first stage of a plan: preparation steps that sort rows into row groups by slice.

If a file is not in time order, its row groups contain rows from many slices. Many tasks would have
to read such row groups, and those that contain a long row. A preparation step reads part of such an
input and writes a file with one row group per cell (see `cells.py`), so that tasks read only the
cells that they need. The file contains each row's position in the input. Tasks use these positions
to restore the input order, so results do not depend on whether rows were sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegate.io.addresses import place_of
from tidegate.io.destinations import file_in, opened_whole
from tidegate.io.files import Format, naming

if TYPE_CHECKING:
    from tidegate.slices.cells import Cells
    from tidegate.slices.task import Rows


@dataclass(frozen=True)
class Sorter:
    """Sorts some row groups of an input into a file. Sorters can be pickled."""

    name: str
    """The name of the file to write."""

    folder: str = field(repr=False)

    rows: Rows = field(repr=False)
    """The rows to sort."""

    cells: Cells = field(repr=False)

    def run(self) -> None:
        """Write the file. It appears under its name only when it is complete.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read or
                written.
        """
        table = self.rows.with_places().combine_chunks()
        cell = np.concatenate(
            [np.zeros(0, np.int64), *(self._cells_of(batch) for batch in table.to_batches())]
        )
        # NumPy sorts 16-bit integers by their digits, in linear time.
        narrow = len(self.cells) <= np.iinfo(np.uint16).max
        order = np.argsort(cell.astype(np.uint16) if narrow else cell, kind="stable")
        ends = np.cumsum(np.bincount(cell, minlength=len(self.cells))).tolist()
        address = file_in(self.folder, self.name)
        place = place_of(address, mapped=False)
        if isinstance(place.filesystem, pafs.LocalFileSystem):
            # Each plan has its own folder, which its first preparation creates.
            with naming(place.address, "cannot be written"):
                Path(place.path).parent.mkdir(exist_ok=True)
        with (
            naming(place.address, f"cannot be written as {Format.PARQUET}"),
            opened_whole(address) as file,
            pq.ParquetWriter(file, table.schema) as writer,
        ):
            for start, end in zip([0, *ends], ends, strict=False):
                some = table.take(pa.array(order[start:end]))
                # An empty cell is an empty row group, so that cells have fixed numbers.
                writer.write_table(some, max(1, len(some)))

    def _cells_of(self, batch: pa.RecordBatch) -> np.ndarray:
        return self.cells.numbers(*self.rows.spans(batch))
