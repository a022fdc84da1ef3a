"""The cost model for all forms that a join can take on Spark.

*Whole*: a small side is collected, and every task receives all of its rows. The rows on the other
    side are passed to Python without being moved. *Native*: the rows on both sides are passed to
    Python, packed, shuffled into slices, and joined there. *In place*: both sides are already
    partitioned by their keys, and their rows are passed to Python once, without a shuffle. *Bins*:
    Spark itself joins on equal keys and time bins. *Files*: each task reads its own rows from
    Parquet files in Python.

Costs are processor times. The model only needs to be accurate enough to identify a clearly cheaper
form. Costs exclude steps that all forms need, such as reading the inputs. Costs also exclude work
that is done before the forms are compared. If a form needs a sample, its cost includes drawing the
sample, unless one has already been drawn.

This module contains only arithmetic for the driver, and depends on neither Spark nor Arrow.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol


class Prices(NamedTuple):
    """The cost of each step of a join, in nanoseconds; the defaults apply to Spark.

    Attributes:
        row: To shuffle a row in a join with bins, and to insert it into a hash table or look it up.
        cell: To shuffle and insert or look up one more column of such a row.
        looked_up: To look up a row that is not shuffled, in a table that every task has in full.
        candidate: To compare two rows with the same key and bin.
        out: To write a column of a pair in a join with bins.
        generated: To plan bins and generate code for them, beyond the time to plan native calls.
        shuffled: To pass a column of a row to Python and to pack, shuffle and join it there.
        back: To return a column of a result from Python.
        handed: To pass a column of a row to Python and to join it with a whole side.
        measured: The additional time to pass a column to Python if the batch is measured after
            every row.
        looked_for: To assign a row to its side in place.
        in_task: For each task that assigns rows to their sides.
        taken: To receive one column of a row in each task, if the row's side is sent in full.
        from_file: To read a column of a row from a file in Python and to join it. The prices of
            other forms do not include reading.
        of_files: For each task that reads files.
        job: To start a job that reads keys and times before the join is planned.
        looked_at: To read a row in such a job.
    """

    row: float = 300.0
    cell: float = 40.0
    looked_up: float = 240.0
    candidate: float = 70.0
    out: float = 25.0
    generated: float = 600_000_000.0
    shuffled: float = 240.0
    back: float = 50.0
    handed: float = 130.0
    measured: float = 90.0
    looked_for: float = 60.0
    in_task: float = 20_000_000.0
    taken: float = 15.0
    from_file: float = 25.0
    of_files: float = 30_000_000.0
    job: float = 500_000_000.0
    looked_at: float = 100.0

    def copying(self, columns: int) -> float:
        """Return the cost of copying a row with this number of columns, in nanoseconds."""
        return self.row + self.cell * columns

    def looking(self, rows: float) -> float:
        """Return the cost of a job that reads keys and times of this many rows, in seconds."""
        return (self.job + self.looked_at * rows) / 1e9


SPARK = Prices()

# Sail runs Python in its own process and shares Arrow data with it, and its jobs start at once.
# These prices were measured on two cores, with 100,000 to 4 million rows per side and two to eight
# columns. All others are Spark's. They are not needed, because Sail does not report the size of a
# side or its partitions.
SAIL = Prices(
    row=120.0,
    cell=5.0,
    looked_up=60.0,
    candidate=12.0,
    out=2.0,
    generated=5_000_000.0,
    shuffled=45.0,
    back=2.0,
    measured=0.0,
    job=30_000_000.0,
    looked_at=40.0,
)

# Bins are chosen if their cost is at most this share of the cost of the cheapest other form.
# Neither a sample nor the constants are exact.
_CLEARLY = 0.8

# Tasks read files instead of Spark if this costs at most this share of the cheapest other form.
_FILES = 0.5

Form = Literal["whole", "native", "bins", "in place"]


class Width(NamedTuple):
    """The number of columns sent from each side and the number of result columns."""

    left: int
    right: int
    result: int


class Asked(NamedTuple):
    """The properties of a join, other than its rows, that affect its cost.

    `measured` specifies whether Spark measures the batch after each row that it passes to Python.
    `once` specifies whether each left row is returned at most once. `prices` are those of the
    engine that runs the join.
    """

    columns: Width
    measured: bool
    once: bool
    prices: Prices = SPARK

    @property
    def handing(self) -> float:
        """The nanoseconds per column for measuring the rows that Spark passes to Python."""
        return self.prices.measured if self.measured else 0.0

    @property
    def shuffling(self) -> float:
        """The nanoseconds per column for rows that are packed, shuffled and joined in Python."""
        return self.prices.shuffled + self.handing

    def results(self, pairs: float, left_rows: float) -> float:
        """Return the number of values in the result: rows times columns."""
        return (min(pairs, left_rows) if self.once else pairs) * self.columns.result


class Small(NamedTuple):
    """The small side, the row counts, and the number of tasks that would receive the small side."""

    side: int
    rows: tuple[float, float]
    tasks: int


class There(NamedTuple):
    """The number of existing partitions and the number of columns passed to Python."""

    partitions: int
    columns: int


class Costs(NamedTuple):
    """The processor time of each form in seconds; None if a form is not possible."""

    bins: float | None
    native: float
    whole: float | None = None
    in_place: float | None = None

    def after(self, seconds: float) -> Costs:
        """Return the costs if bins and native calls need a sample that costs this many seconds."""
        bins = None if self.bins is None else self.bins + seconds
        return self._replace(bins=bins, native=self.native + seconds)

    @property
    def stays(self) -> bool:
        """Return whether a join in place is possible and costs at most as much as a shuffle."""
        return self.in_place is not None and self.in_place <= self.native

    @property
    def cheapest(self) -> Form:
        """The form to use. Bins are chosen only if they are clearly cheaper."""
        form: Form = "native"
        least = self.native
        if self.in_place is not None and self.stays:
            form, least = "in place", self.in_place
        if self.whole is not None and self.whole <= least:
            form, least = "whole", self.whole
        if self.bins is not None and self.bins <= _CLEARLY * least:
            form = "bins"
        return form


class Unsampled(NamedTuple):
    """Each form's processor time in seconds, excluding results, if no rows were sampled.

    The costs of all forms except `files` are lower bounds.
    """

    files: float
    bins: float | None
    native: float

    @property
    def reads_files(self) -> bool:
        """Return whether tasks should read the files of both sides themselves."""
        least = self.native if self.bins is None else min(self.bins, self.native)
        return self.files <= _FILES * least


class Work(Protocol):
    """The work of a join with bins: the rows on both sides, the copies, and the row pairs."""

    @property
    def rows(self) -> float:
        """The number of rows in both inputs."""

    @property
    def of_copied(self) -> float:
        """The number of rows on the copied side."""

    @property
    def copies(self) -> float:
        """The number of copies, not counting the original rows."""

    @property
    def candidates(self) -> float:
        """The number of pairs of rows that share a key and a bin."""

    @property
    def pairs(self) -> float:
        """The number of pairs in the result."""


def costs(
    work: Work,
    asked: Asked,
    small: Small | None = None,
    there: There | None = None,
    *,
    stay: float = 0.0,
) -> Costs:
    """Return the costs of the join with bins, with native calls, with a whole side, and in place.

    The last two forms require `small` and `there`, respectively. With bins, `stay` rows and copies
    are not shuffled, because every task receives the other side.
    """
    columns, prices = asked.columns, asked.prices
    cells = work.rows * (columns.left + columns.right) / 2
    # If each left row is returned at most once, right rows are copied.
    out = asked.results(work.pairs, work.rows - work.of_copied)
    bins = prices.generated + prices.row * (work.rows + work.copies - stay)
    bins += prices.looked_up * stay
    staying = stay * (columns.left + columns.right) / 2
    bins += prices.cell * (cells + work.copies * max(columns.left, columns.right) - staying)
    bins += prices.candidate * work.candidates + prices.out * out
    native = asked.shuffling * cells + prices.back * out
    whole = None if small is None else _of_whole(small, asked, work.pairs)
    in_place = None if there is None else _in_place(there, asked, work.rows, out)
    return Costs(bins / 1e9, native / 1e9, whole, in_place)


def without_bins(small: Small, asked: Asked) -> Costs:
    """Return the cost of a join that cannot use bins. The cost of results is excluded."""
    cells = sum(_cells(small.rows, asked.columns))
    native = asked.shuffling * cells
    return Costs(None, native / 1e9, _of_whole(small, asked, 0.0))


def of_files(
    read: float, tasks: int, cells: float, rows: float | None, *, measured: bool
) -> Unsampled:
    """Return the costs of all forms, including tasks that read the files of all inputs.

    Args:
        read: The number of values that all tasks read.
        tasks: The number of tasks.
        cells: The number of values in the inputs: rows times columns.
        rows: The number of rows in the inputs if Spark can join them with bins, otherwise None.
        measured: Whether Spark measures the batch after each row that it passes to Python.
    """
    files = SPARK.from_file * read + SPARK.of_files * tasks
    # In the cheapest case, a small side is sent in full, and the rows of the other side are only
    # passed to Python.
    native = (SPARK.handed + (SPARK.measured if measured else 0.0)) * cells
    bins = None if rows is None else SPARK.generated + SPARK.looked_up * rows
    return Unsampled(files / 1e9, None if bins is None else bins / 1e9, native / 1e9)


def of_rows(rows: tuple[float, float], asked: Asked, there: There) -> Costs:
    """Return the costs of native calls, with a shuffle and in place, excluding results."""
    native = asked.shuffling * sum(_cells(rows, asked.columns))
    return Costs(None, native / 1e9, None, _in_place(there, asked, sum(rows), 0.0))


def _in_place(there: There, asked: Asked, rows: float, out: float) -> float:
    """Return the cost of a join in place, in seconds; `out` is the number of result values."""
    prices = asked.prices
    handed = (prices.handed + asked.handing) * rows * there.columns
    found = prices.in_task * there.partitions + prices.looked_for * rows
    return (found + handed + prices.back * out) / 1e9


def _of_whole(small: Small, asked: Asked, pairs: float) -> float:
    """Return the cost, in seconds, of a join with a whole side that is already collected."""
    cells = _cells(small.rows, asked.columns)
    taken, handed = cells[small.side], cells[1 - small.side]
    prices = asked.prices
    nanoseconds = prices.taken * taken * small.tasks + (prices.handed + asked.handing) * handed
    return (nanoseconds + prices.back * asked.results(pairs, small.rows[0])) / 1e9


def _cells(rows: tuple[float, float], columns: Width) -> tuple[float, float]:
    left, right = rows
    return left * columns.left, right * columns.right
