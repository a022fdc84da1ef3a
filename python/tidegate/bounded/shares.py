"""Divides a memory limit among the parts of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

LARGE = 1 << 30
"""Without a memory limit, files of at least this size in bytes are processed slice by slice."""

LEAST = 128_000_000
"""The smallest limit that leaves room for the few batches that are processed at a time."""

# The maximum number of sorted runs of one side, and of streams of both sides, that are merged at
# the same time.
RUNS = 32
STREAMS = 2 * RUNS

# The minimum number of rows per batch: handing over fewer rows takes longer than processing them.
LEAST_ROWS = 256

# The approximate number of bytes that an operator counts for a row, including the state that the
# row may add. The operator has room for `PUSHES` pushes.
PUSHED_BYTES = 400
PUSHES = 8

# The assumed size of a value whose type has no fixed size.
VALUE_BYTES = 32


# Larger slices take longer, because their memory is not in a cache and is often newly mapped. Two
# sides of 23 million rows took 2.4 s of system time with slices of 194 MB, and 1.2 s with these.
GOOD_SLICE = 32_000_000

# The number of bytes of one side to read ahead: a few row groups of typical size. Two sides of 23
# million rows took 5.4 s of wall-clock time when reading one slice ahead, and 4.2 s with this
# value.
GOOD_AHEAD = 128_000_000

# The number of rows to read per batch: a whole row group of typical size. Two sides of 23 million
# rows took 5.7 s of processor time with a quarter of this value, and 5.1 s with this value.
GOOD_ROWS = 1 << 18

# The number of bytes that allocators, threads and file readers need in addition to the rows. It was
# measured with Parquet files and two threads.
BESIDE = 64_000_000


@dataclass(frozen=True)
class Shares:
    """The bytes of each part. The remainder covers the overhead of native calls.

    Example:
        >>> Shares(264_000_000).sorted
        50000000
    """

    limit: int
    is_bound: bool = True
    """Whether it is an error to exceed the limit."""

    streams: int = 1
    """The number of streams sorted and merged in parallel; each share is for one stream."""

    @property
    def _rows(self) -> int:
        """The bytes available for rows."""
        return max(self.limit // 2, self.limit - BESIDE) // self.streams

    @property
    def slice(self) -> int:
        """The size in bytes of the left rows to join at a time."""
        return self._rows // 10

    def slice_with(self, carried: int) -> int:
        """Return the size of a slice whose window shares `carried` bytes with the previous window.

        The shared bytes are processed again for each slice, so a slice should contain at least as
        many bytes.
        """
        return min(self.slice, max(GOOD_SLICE, carried))

    @property
    def window(self) -> int:
        """The number of bytes available for the right rows within a slice's reach."""
        return self._rows * 3 // 10

    @property
    def sorted(self) -> int:
        """The size in bytes of the rows to sort at a time; sorting needs as much memory again."""
        return self._rows // 4

    @property
    def sorted_beside(self) -> int:
        """The size in bytes of the rows to sort at a time while the other side is also sorted."""
        return self._rows // 8

    @property
    def sorted_in_memory(self) -> int:
        """The maximum size in bytes of rows from one side that are sorted without temporary files.

        Sorting needs as much memory again, in addition to the rows in the slice and the window.
        """
        return self._rows // 16

    @property
    def state(self) -> int:
        """The maximum number of bytes that an operator may hold."""
        return self._rows * 2 // 5

    def rows_read(self, schema: pa.Schema) -> int:
        """Return the number of rows to read per batch."""
        return rows_in(self._rows // 64, schema, GOOD_ROWS)

    def batches_ahead(self, schema: pa.Schema) -> int:
        """Return the number of batches to read ahead on one side.

        All rows in a row group arrive at the same time. With room for only one row group, one
        side's thread would be idle while the join waits for the other side.
        """
        size = max(self.slice_with(0), min(GOOD_AHEAD, self._rows // 16))
        return max(2, size // (self.rows_read(schema) * row_bytes(schema)))

    @property
    def rows_pushed(self) -> int:
        """The number of rows per push; the operator counts a few hundred bytes for each row."""
        return max(1, self.state // (PUSHES * PUSHED_BYTES))

    def rows_merged(self, schema: pa.Schema) -> int:
        """Return the number of rows per batch in a sorted run. Memory holds about three batches."""
        return rows_in(self._rows // (4 * 3 * STREAMS), schema, 1 << 16)

    def rows_made(self, schema: pa.Schema, threads: int) -> int:
        """Return the number of rows per result batch; each thread holds about four batches."""
        return rows_in(self._rows // (8 * 4 * threads), schema, 1 << 16)


def rows_in(size: int, schema: pa.Schema, most: int) -> int:
    """Return the approximate number of rows that fit into `size` bytes."""
    return max(LEAST_ROWS, min(most, size // row_bytes(schema)))


def row_bytes(schema: pa.Schema) -> int:
    """Return the approximate size of a row in bytes."""
    return max(1, sum(_width(field.type) for field in schema))


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return VALUE_BYTES
