"""The costs of a join in each form that it may have on Spark: one model for all of them.

*Whole*: a small side is collected, and every task gets all of it. Rows of the other side are handed
to Python where they are. *Native*: rows of both sides are handed to Python, packed, shuffled into
slices, and joined there. *In place*: both sides are partitioned by their keys already, and rows are
handed to Python once, where they are. *Bins*: Spark itself joins on equal keys and time bins.

Costs are processor time. They only have to tell which form is clearly cheaper. What all forms need,
as to read the inputs, is left out, and so is work that is done already when forms are compared. A
form that needs a sample costs the sample, too, as long as none was taken.

Everything here is arithmetic on the driver: neither Spark nor Arrow is known.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

# Nanoseconds that Spark takes to shuffle a row and to put it in a hash table or look it up, and for
# each of its columns.
_ROW = 300.0
_CELL = 40.0

# Nanoseconds to look a row up where it is, in a table that every task has whole.
_LOOKED_UP = 240.0

# Nanoseconds for two rows of one key and bin, and for each column of a pair that comes out.
_CANDIDATE = 70.0
_OUT = 25.0

# Nanoseconds that plans and generated code of bins take, more than the plans of native calls.
_GENERATED = 600_000_000.0

# Nanoseconds to hand a column of a row to Python, and to pack, shuffle and join it there; and for a
# column of a result on its way back.
_SHUFFLED = 240.0
_BACK = 50.0

# Nanoseconds to hand a column of a row to Python and to join it with a side that is whole.
_HANDED = 130.0

# The same again for each column that is handed over, where Spark measures the batch after every
# row.
_MEASURED = 90.0

# Nanoseconds to bring a row to its side where it is, and of a task that does.
_LOOKED_FOR, _IN_TASK = 60.0, 20_000_000.0

# Nanoseconds for each column of a row of the side that is whole in each task that takes it.
_TAKEN = 15.0

# Nanoseconds of a job that looks at keys and times before the join is planned, and for each row.
_JOB, _LOOKED_AT = 500_000_000.0, 100.0

# Bins are chosen if they cost at most this share. A sample and the constants are not exact.
_CLEARLY = 0.8

Form = Literal["whole", "native", "bins", "in place"]


class Width(NamedTuple):
    """Columns of a row of either side that travel, and of a row of the result."""

    left: int
    right: int
    result: int


class Asked(NamedTuple):
    """The question, as far as costs depend on it beside the rows.

    `measured` says whether Spark measures what it hands to Python after every row, `once` whether a
    left row comes once at most.
    """

    columns: Width
    measured: bool
    once: bool

    @property
    def handing(self) -> float:
        """Nanoseconds that Spark's measure of a batch adds to each column handed over."""
        return _MEASURED if self.measured else 0.0

    def results(self, pairs: float, left_rows: float) -> float:
        """Columns of all rows of the result."""
        return (min(pairs, left_rows) if self.once else pairs) * self.columns.result


class Small(NamedTuple):
    """The side that is small, rows of the left and the right side, and tasks that would take it."""

    side: int
    rows: tuple[float, float]
    tasks: int


class There(NamedTuple):
    """Partitions that have all rows of a key already, and columns in which rows are handed over."""

    partitions: int
    columns: int


class Costs(NamedTuple):
    """Seconds of processor time of each form; None for one that is not possible."""

    bins: float | None
    native: float
    whole: float | None = None
    in_place: float | None = None

    def after(self, seconds: float) -> Costs:
        """The same where bins and native calls need a sample, which takes so long."""
        bins = None if self.bins is None else self.bins + seconds
        return self._replace(bins=bins, native=self.native + seconds)

    @property
    def stays(self) -> bool:
        """Whether rows that are there already are joined there, and not shuffled."""
        return self.in_place is not None and self.in_place <= self.native

    @property
    def cheapest(self) -> Form:
        """The form to take. It is bins only if these are clearly cheaper."""
        form: Form = "native"
        least = self.native
        if self.in_place is not None and self.stays:
            form, least = "in place", self.in_place
        if self.whole is not None and self.whole <= least:
            form, least = "whole", self.whole
        if self.bins is not None and self.bins <= _CLEARLY * least:
            form = "bins"
        return form


class Work(Protocol):
    """What a join by bins does: the rows of both sides, their copies, and pairs of rows."""

    @property
    def rows(self) -> float:
        """Rows of both inputs."""

    @property
    def of_copied(self) -> float:
        """Rows of the side that is copied."""

    @property
    def copies(self) -> float:
        """Copies beside the rows."""

    @property
    def candidates(self) -> float:
        """Pairs of rows of one key and bin."""

    @property
    def pairs(self) -> float:
        """Pairs of the result."""


def copying(columns: int) -> float:
    """Nanoseconds that a copy of a row with this number of columns costs."""
    return _ROW + _CELL * columns


def comparing() -> float:
    """Nanoseconds that a candidate costs."""
    return _CANDIDATE


def looking(rows: float) -> float:
    """Seconds of a job that looks at the keys and times of this number of rows."""
    return (_JOB + _LOOKED_AT * rows) / 1e9


def costs(
    work: Work,
    asked: Asked,
    small: Small | None = None,
    there: There | None = None,
    *,
    stay: float = 0.0,
) -> Costs:
    """What the join costs by bins and by native calls, with a side whole, and in place.

    The last two are for a small side, and for rows that are there already. In bins, `stay` is the
    rows and copies that stay where they are: all tasks get the other side.
    """
    columns = asked.columns
    cells = work.rows * (columns.left + columns.right) / 2
    # Where left rows come once, right rows are copied.
    out = asked.results(work.pairs, work.rows - work.of_copied)
    bins = _GENERATED + _ROW * (work.rows + work.copies - stay) + _LOOKED_UP * stay
    staying = stay * (columns.left + columns.right) / 2
    bins += _CELL * (cells + work.copies * max(columns.left, columns.right) - staying)
    bins += _CANDIDATE * work.candidates + _OUT * out
    native = (_SHUFFLED + asked.handing) * cells + _BACK * out
    whole = None if small is None else _of_whole(small, asked, work.pairs)
    in_place = None if there is None else _in_place(there, asked, work.rows, out)
    return Costs(bins / 1e9, native / 1e9, whole, in_place)


def without_bins(small: Small, asked: Asked) -> Costs:
    """What the join costs if it cannot have bins, without its results."""
    cells = sum(_cells(small.rows, asked.columns))
    native = (_SHUFFLED + asked.handing) * cells
    return Costs(None, native / 1e9, _of_whole(small, asked, 0.0))


def of_rows(rows: tuple[float, float], asked: Asked, there: There) -> Costs:
    """What native calls cost with rows shuffled and in place, both without their results."""
    native = (_SHUFFLED + asked.handing) * sum(_cells(rows, asked.columns))
    return Costs(None, native / 1e9, None, _in_place(there, asked, sum(rows), 0.0))


def _in_place(there: There, asked: Asked, rows: float, out: float) -> float:
    """Seconds with all rows where they are; `out` are columns of all rows of the result."""
    handed = (_HANDED + asked.handing) * rows * there.columns
    return (_IN_TASK * there.partitions + _LOOKED_FOR * rows + handed + _BACK * out) / 1e9


def _of_whole(small: Small, asked: Asked, pairs: float) -> float:
    """Seconds with a side whole that was collected already."""
    cells = _cells(small.rows, asked.columns)
    taken, handed = cells[small.side], cells[1 - small.side]
    nanoseconds = _TAKEN * taken * small.tasks + (_HANDED + asked.handing) * handed
    return (nanoseconds + _BACK * asked.results(pairs, small.rows[0])) / 1e9


def _cells(rows: tuple[float, float], columns: Width) -> tuple[float, float]:
    left, right = rows
    return left * columns.left, right * columns.right
