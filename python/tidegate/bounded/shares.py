"""What the parts of the work may take of a memory limit."""

from dataclasses import dataclass

import pyarrow as pa

from tidegate import TidegateError

LARGE = 1 << 30
"""Files of more bytes are taken slice by slice where no limit is given."""

LEAST = 128_000_000
"""Below it, there is no room for the few batches that are read and made at a time."""

# Runs that are merged at once, and the streams that are merged at a time: those of two sides.
RUNS = 32
STREAMS = 2 * RUNS

# The least rows of a batch: fewer take longer to hand over than to work on.
LEAST_ROWS = 256

# What an operator counts for a row and the state that the row may add, about, and how many pushes
# of rows it has room for.
PUSHED_BYTES = 400
PUSHES = 8

# What is assumed of a value whose type does not tell its size.
VALUE_BYTES = 32


# Slices of more bytes take longer, since their memory is in no cache and often fresh: two sides of
# 23 million rows took 2.4 s of the system's time with slices of 194 MB, and 1.2 s with these.
GOOD_SLICE = 32_000_000

# Bytes of a side that are read ahead: some row groups of usual sizes. Two sides of 23 million rows
# took 5.4 s of the clock with the bytes of one slice ahead, and 4.2 s with this.
GOOD_AHEAD = 128_000_000

# Rows of a batch that is read: the rows of a row group of usual size, at once. Two sides of 23
# million rows took 5.7 s of processor time with a quarter of these, and 5.1 s with these.
GOOD_ROWS = 1 << 18

# What allocators, threads and readers of files take beside rows: measured with Parquet files and
# two threads.
BESIDE = 64_000_000


@dataclass(frozen=True)
class Shares:
    """The bytes of each part. What they leave is for what the native calls take beside their rows.

    Example:
        >>> Shares(264_000_000).sorted
        50000000
    """

    limit: int
    is_bound: bool = True
    """Whether more than the limit is refused."""

    streams: int = 1
    """Of one of several streams that are sorted and merged side by side."""

    def __post_init__(self) -> None:
        if self.limit < LEAST:
            message = (
                f"memory_limit: {self.limit} bytes leave no room for the few batches that are "
            )
            message += f"in work at a time; give {LEAST} or more ({2 * LEAST} for a table, which "
            message += "may have half of it), or leave it out"
            raise TidegateError(message)

    @property
    def _rows(self) -> int:
        """What is for rows."""
        return max(self.limit // 2, self.limit - BESIDE) // self.streams

    @property
    def slice(self) -> int:
        """The left rows that are joined at a time."""
        return self._rows // 10

    def slice_with(self, carried: int) -> int:
        """The left rows of a slice, if its window has `carried` bytes of the window before.

        These are worked on again with each slice, so a slice is no smaller.
        """
        return min(self.slice, max(GOOD_SLICE, carried))

    @property
    def window(self) -> int:
        """The right rows that these may reach."""
        return self._rows * 3 // 10

    @property
    def sorted(self) -> int:
        """The rows that are sorted at a time; sorting takes as much again."""
        return self._rows // 4

    @property
    def sorted_beside(self) -> int:
        """The same while the other side is sorted, too, and slices are joined."""
        return self._rows // 8

    @property
    def sorted_in_memory(self) -> int:
        """The rows of a side that are sorted without temporary files; sorting takes as much again.

        They are held beside the rows of the slice and the window.
        """
        return self._rows // 16

    @property
    def state(self) -> int:
        """What an operator may hold."""
        return self._rows * 2 // 5

    def rows_read(self, schema: pa.Schema) -> int:
        """The rows of a batch that is read."""
        return rows_in(self._rows // 64, schema, GOOD_ROWS)

    def batches_ahead(self, schema: pa.Schema) -> int:
        """The batches of a side that are read before they are asked for.

        The rows of a row group come at once. Where there is no room for more than one, the thread
        of one side rests while the join waits for the other side.
        """
        size = max(self.slice_with(0), min(GOOD_AHEAD, self._rows // 16))
        return max(2, size // (self.rows_read(schema) * row_bytes(schema)))

    @property
    def rows_pushed(self) -> int:
        """The rows that an operator takes at once; it counts some hundred bytes for each."""
        return max(1, self.state // (PUSHES * PUSHED_BYTES))

    def rows_merged(self, schema: pa.Schema) -> int:
        """The rows of a batch of a sorted run; of each run, some three batches are in memory."""
        return rows_in(self._rows // (4 * 3 * STREAMS), schema, 1 << 16)

    def rows_made(self, schema: pa.Schema, threads: int) -> int:
        """The rows of a batch of a result; each thread has some four in work."""
        return rows_in(self._rows // (8 * 4 * threads), schema, 1 << 16)


def rows_in(size: int, schema: pa.Schema, most: int) -> int:
    """The number of rows that about fill some bytes."""
    return max(LEAST_ROWS, min(most, size // row_bytes(schema)))


def row_bytes(schema: pa.Schema) -> int:
    """What a row takes, about."""
    return max(1, sum(_width(field.type) for field in schema))


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return VALUE_BYTES
