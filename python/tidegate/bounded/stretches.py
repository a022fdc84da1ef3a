"""Stretches of Parquet files: row groups, or sets of row groups, that do not overlap in time.

A file's statistics contain the first and last times in each row group. Row groups that
overlap in time form one stretch, and every other row group forms a separate stretch. Each stretch
can therefore be put in time order independently, and no times need to be read beforehand:

    row groups  ├─a─┤├──b──┤   ├─d─┤
                          ├─c─┤
    stretches   ├─a─┤├───b c──┤├─d─┤

The result is the same as after a stable sort of the whole table: rows with equal times keep the
order of the files.
"""

from collections.abc import Sequence

from tidegate.io.open_tables import OpenTable
from tidegate.io.pruning import Group, Span, row_groups, spans

Stretch = list[Group]


def stretches(table: OpenTable, on: str) -> list[Stretch] | None:
    """Return a table's stretches in time order, each with its row groups in file order.

    The result is None if the table contains files other than Parquet files, if the statistics for a
    row group contain no times, or if they show that the group contains a null time.
    """
    groups = row_groups(table)
    if groups is None:
        return None
    found = spans(groups, on, table.schema.field(on).type)
    if found is None:
        return None
    return [[groups[at] for at in numbers] for numbers in parted(found)]


def parted(found: Sequence[Span]) -> list[list[int]]:
    """Return the span numbers of each stretch.

    Two spans that touch are in different stretches only if the earlier span has the lower number,
    so that rows with equal times keep the order of the files.

    Example:
        >>> parted([(20, 29), (0, 9), (5, 12), (12, 15)])
        [[1, 2], [3], [0]]
    """
    order = sorted(range(len(found)), key=lambda at: (*found[at], at))
    # For each span, the lowest number among the subsequent spans that begin at the same time.
    lowest = [*order]
    for place in range(len(order) - 2, -1, -1):
        if found[order[place]][0] == found[order[place + 1]][0]:
            lowest[place] = min(lowest[place], lowest[place + 1])
    parts: list[list[int]] = []
    # The last time so far, and the highest number among the spans that end at this time.
    last: int | None = None
    highest = 0
    for place, at in enumerate(order):
        first, end = found[at]
        if last is None or last < first or (last == first and highest < lowest[place]):
            parts.append([])
        if last is None or end > last:
            last, highest = end, at
        elif end == last:
            highest = max(highest, at)
        parts[-1].append(at)
    return [sorted(part) for part in parts]
