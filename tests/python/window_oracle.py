"""A reference implementation of aggregates over sliding windows, from all rows of each window.

It uses Python's numbers, so sums are exact. Floats are added in the documented order, so results
can be compared bit by bit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        """Return the number of slices in a window, divided by the windows' starts and ends."""
        whole, rest = divmod(self.size, self.advance)
        return 2 * whole + 1 if rest else whole

    @property
    def stride(self) -> int:
        """Return the number of slices between the starts of adjacent windows."""
        return 2 if self.size % self.advance else 1

    def slice_of(self, ts: int) -> int:
        """Return the number of the slice that contains a time."""
        step, within = divmod(ts - self.offset % self.advance, self.advance)
        rest = self.size % self.advance
        return 2 * step + (within >= rest) if rest else step

    def of(self, ts: int) -> list[int]:
        """Return every k whose window contains a time."""
        last = (ts - self.offset) // self.advance
        first = (ts - self.offset - self.size) // self.advance + 1
        return list(range(first, last + 1))


@dataclass(frozen=True)
class Place:
    """A row with its sort key: its time, its stream, and its position in the stream."""

    ts: int
    stream: int
    position: int
    row: Row


def aggregate(
    streams: Sequence[Sequence[Row]],
    windows: Windows,
    by: Sequence[str],
    aggs: dict[str, tuple[str, str | tuple[str, object] | None, Callable[[Row], bool]]],
    where: Callable[[Row], bool] = lambda _row: True,
) -> list[Row]:
    """Return the result's rows.

    An aggregate is a function's name, a column, and the rows that count. For a function of two
    columns, the column is a pair. For a quantile, it is a tuple of the column, the share and the
    interpolation.
    """
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
    """A sort key: ascending, NaN after the other floats, null last."""
    return (2, 0) if value is None else (1, 0) if value == "NaN" else (0, value)


def _value(
    function: str,
    column: str | tuple[str, object] | None,
    rows: list[Place],
    windows: Windows,
    k: int,
) -> object:
    if function == "collect":
        return [place.row[column] for place in rows] or None
    if isinstance(column, tuple):
        return _of_more(function, column, rows, windows, k)
    if function in ("first", "last"):
        return rows[0 if function == "first" else -1].row[column] if rows else None
    if column is not None:
        rows = [place for place in rows if place.row[column] is not None]
    if function == "count":
        return len(rows)
    if function == "count_distinct":
        return len({_key(place.row[column]) for place in rows})
    return _of_values(function, column, rows, windows, k) if rows else None


def _of_values(
    function: str, column: str | None, rows: list[Place], windows: Windows, k: int
) -> object:
    """Compute a function of one column of existing rows with values."""
    values = [place.row[column] for place in rows]
    if function == "median":
        return quantile(values, 0.5, "midpoint")
    if function in ("min", "max"):
        found = (min if function == "min" else max)(values, key=_float_order)
        # Both zeros count as 0.0.
        return found + 0.0 if isinstance(found, float) else found
    if function in ("sum", "mean"):
        total = _sum(column, rows, windows, k)
        return total if function == "sum" else float(total) / len(rows)
    count, _, squares = _folded(column, rows, windows, k, _moments, _moments_of_both)
    if count < 2:
        return None
    variance = squares / (count - 1)
    return variance if function == "var" else math.sqrt(variance)


def _of_more(
    function: str, column: tuple[str, object], rows: list[Place], windows: Windows, k: int
) -> object:
    """Compute a function of two columns, or a quantile."""
    first, second = column
    if function == "quantile":
        share, interpolation = second
        values = [place.row[first] for place in rows if place.row[first] is not None]
        return quantile(values, share, interpolation)
    if function in ("arg_min", "arg_max"):
        rows = [place for place in rows if place.row[second] is not None]
        # Both functions return the first of several equal values.
        best = min if function == "arg_min" else max
        found = best(rows, key=lambda place: _float_order(place.row[second]), default=None)
        return None if found is None else found.row[first]
    rows = [place for place in rows if None not in (place.row[first], place.row[second])]
    if len(rows) < 2:
        return None
    pairs = [replace(place, row={"both": (place.row[first], place.row[second])}) for place in rows]
    state = _folded("both", pairs, windows, k, _joint, _joint_of_both)
    count, _, _, squares, others, products = state
    if function == "covar":
        return products / (count - 1)
    both = squares * others
    is_normal = math.isfinite(both) and both >= 2.0**-1022
    root = math.sqrt(both) if is_normal else math.sqrt(squares) * math.sqrt(others)
    if root == 0.0:
        return math.nan if products == 0 or math.isnan(products) else math.copysign(1, products)
    ratio = products / root
    return ratio if math.isnan(ratio) else max(-1.0, min(1.0, ratio))


def quantile(values: Sequence[float], share: float, interpolation: str) -> float | None:
    """Compute a quantile of values; NaN sorts after all others."""
    if not values:
        return None
    ordered = sorted(map(float, values), key=_float_order)
    place = (len(ordered) - 1) * share
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if interpolation == "nearest":
        return ordered[math.floor(place + 0.5)]
    if interpolation in ("lower", "higher"):
        return low if interpolation == "lower" else high
    if repr(low) == repr(high):
        return low
    if interpolation == "midpoint":
        return (low + high) / 2
    return (place - math.floor(place)) * (high - low) + low


def _joint(pairs: list[tuple[float, float]]) -> tuple[float, ...]:
    count, mean, other, squares, others, products = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for one, two in pairs:
        count += 1
        distances = float(one) - mean, float(two) - other
        mean, other = mean + distances[0] / count, other + distances[1] / count
        squares += distances[0] * (float(one) - mean)
        others += distances[1] * (float(two) - other)
        products += distances[0] * (float(two) - other)
    return count, mean, other, squares, others, products


def _joint_of_both(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    count, x, y = a[0] + b[0], b[1] - a[1], b[2] - a[2]
    share, between = b[0] / count, a[0] * b[0] / count
    return (
        count,
        a[1] + x * share,
        a[2] + y * share,
        a[3] + b[3] + x * x * between,
        a[4] + b[4] + y * y * between,
        a[5] + b[5] + x * y * between,
    )


def _float_order(value: object) -> tuple[bool, object, bool]:
    is_float = isinstance(value, float)
    if is_float and math.isnan(value):
        return (True, 0, False)
    return (False, value, is_float and math.copysign(1, value) > 0)


def _sum(column: str | None, rows: list[Place], windows: Windows, k: int) -> object:
    if isinstance(rows[0].row[column], int):
        return sum(place.row[column] for place in rows)
    # `sum` is not used, because it corrects rounding errors in newer Python versions.
    return _folded(column, rows, windows, k, lambda values: reduce(add, values, 0.0), add)


def _folded(column, rows, windows, k, state, combine):
    """Combine a state of all rows in the documented order.

    Within a slice, each stream's rows are combined in time order, then the streams. Then the slices
    are combined: backwards up to the last multiple of the window's slices, and forwards from there.
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
