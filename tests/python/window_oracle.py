"""Aggregates over sliding windows that are obviously right: every window from all rows.

Numbers are Python's, so that sums are exact; floats are added in the order that is documented, so
that results can be compared bit by bit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

Row = dict[str, object]


@dataclass(frozen=True)
class Windows:
    """The windows `[k * advance + offset, k * advance + offset + size)`."""

    size: int
    advance: int
    offset: int = 0

    @property
    def slices(self) -> int:
        """How many slices a window has: its starts and ends cut time."""
        whole, rest = divmod(self.size, self.advance)
        return 2 * whole + 1 if rest else whole

    @property
    def stride(self) -> int:
        """How many slices later the next window begins."""
        return 2 if self.size % self.advance else 1

    def slice_of(self, ts: int) -> int:
        """The number of the slice that a time is in."""
        step, within = divmod(ts - self.offset % self.advance, self.advance)
        rest = self.size % self.advance
        return 2 * step + (within >= rest) if rest else step

    def of(self, ts: int) -> list[int]:
        """Every k whose window holds a time."""
        last = (ts - self.offset) // self.advance
        first = (ts - self.offset - self.size) // self.advance + 1
        return list(range(first, last + 1))


@dataclass(frozen=True)
class Place:
    """A row with what orders it: its time, its stream, and its position there."""

    ts: int
    stream: int
    position: int
    row: Row


def aggregate(
    streams: Sequence[Sequence[Row]],
    windows: Windows,
    by: Sequence[str],
    aggs: dict[str, tuple[str, str | None, Callable[[Row], bool]]],
    where: Callable[[Row], bool] = lambda _row: True,
) -> list[Row]:
    """The result's rows; an aggregate is a function's name, a column, and which rows count."""
    groups: dict[tuple[object, ...], list[Place]] = {}
    for number, rows in enumerate(streams):
        for position, row in enumerate(rows):
            if where(row):
                for k in windows.of(row["ts"]):
                    key = (k, *(_key(row[name]) for name in by))
                    place = Place(row["ts"], number, position, row)
                    groups.setdefault(key, []).append(place)
    result = []
    for key in sorted(groups, key=lambda key: (key[0], *map(_order, key[1:]))):
        places = sorted(groups[key], key=lambda place: (place.ts, place.stream, place.position))
        start = key[0] * windows.advance + windows.offset
        found: Row = {"window_start": start, "window_end": start + windows.size}
        found |= dict(zip(by, key[1:], strict=True))
        for name, (function, column, counts) in aggs.items():
            rows = [place for place in places if counts(place.row)]
            found[name] = _value(function, column, rows, windows, key[0])
        result.append(found)
    return result


def _key(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _order(value: object) -> tuple[int, object]:
    """Ascending, NaN after the other floats, null last."""
    return (2, 0) if value is None else (1, 0) if value == "NaN" else (0, value)


def _value(  # noqa: PLR0911 - a line for each function
    function: str, column: str | None, rows: list[Place], windows: Windows, k: int
) -> object:
    if function in ("first", "last"):
        return rows[0 if function == "first" else -1].row[column] if rows else None
    if column is not None:
        rows = [place for place in rows if place.row[column] is not None]
    if function == "count":
        return len(rows)
    if not rows:
        return None
    values = [place.row[column] for place in rows]
    if function in ("min", "max"):
        return (min if function == "min" else max)(values, key=_float_order)
    if function in ("sum", "mean"):
        total = _sum(column, rows, windows, k)
        return total if function == "sum" else float(total) / len(rows)
    count, _, squares = _folded(column, rows, windows, k, _moments, _moments_of_both)
    if count < 2:
        return None
    variance = squares / (count - 1)
    return variance if function == "var" else math.sqrt(variance)


def _float_order(value: object) -> tuple[bool, object, bool]:
    is_float = isinstance(value, float)
    if is_float and math.isnan(value):
        return (True, 0, False)
    return (False, value, is_float and math.copysign(1, value) > 0)


def _sum(column: str | None, rows: list[Place], windows: Windows, k: int) -> object:
    if isinstance(rows[0].row[column], int):
        return sum(place.row[column] for place in rows)
    # Not by `sum`, which adds floats with a correction in newer Pythons.
    return _folded(column, rows, windows, k, lambda values: reduce(add, values, 0.0), add)


def _folded(column, rows, windows, k, state, combine):
    """A state of all rows, combined in the documented order.

    Within a slice a stream's rows in time order, then the streams; then the slices: those before
    the last multiple of the window's slices backwards, those after it forwards.
    """
    first = (k + windows.offset // windows.advance) * windows.stride
    border = (first // windows.slices + 1) * windows.slices
    cells: dict[int, dict[int, list[float]]] = {}
    for place in rows:
        cell = cells.setdefault(windows.slice_of(place.ts), {})
        cell.setdefault(place.stream, []).append(place.row[column])
    states = {
        at: reduce(combine, [state(cell[stream]) for stream in sorted(cell)])
        for at, cell in sorted(cells.items())
    }
    before = [states[at] for at in states if at < border]
    after = [states[at] for at in states if at >= border]
    halves = []
    if before:
        halves.append(reduce(lambda later, earlier: combine(earlier, later), reversed(before)))
    if after:
        halves.append(reduce(combine, after))
    return reduce(combine, halves)


def _moments(values: list[float]) -> tuple[float, float, float]:
    count, mean, squares = 0.0, 0.0, 0.0
    for value in map(float, values):
        count += 1
        distance = value - mean
        mean += distance / count
        squares += distance * (value - mean)
    return count, mean, squares


def _moments_of_both(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, float, float]:
    count, distance = a[0] + b[0], b[1] - a[1]
    mean = a[1] + distance * (b[0] / count)
    return count, mean, a[2] + b[2] + distance * distance * (a[0] * b[0] / count)
