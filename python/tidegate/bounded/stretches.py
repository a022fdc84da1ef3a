"""Stretches of a table of Parquet files: row groups whose times follow each other.

The statistics of a file say from which time to which the rows of a row group are. Row groups that
have no time in common follow each other whole, and row groups that overlap make one stretch. So
each stretch is put in time order by itself, and no time has to be read beforehand:

    row groups  ├─a─┤├──b──┤   ├─d─┤
                          ├─c─┤
    stretches   ├─a─┤├───b c──┤├─d─┤

The rows then have the order of a stable sort of the whole table: rows of equal times keep the order
of the files.
"""

from collections.abc import Sequence

from tidegate.io.open_tables import OpenTable
from tidegate.io.pruning import Group, Span, row_groups, spans

Stretch = list[Group]


def stretches(table: OpenTable, on: str) -> list[Stretch] | None:
    """The stretches of a table by their times, each in the order of its row groups.

    None if the table has other files than Parquet, or statistics lack the times of a row group or
    say that one is null.
    """
    groups = row_groups(table)
    if groups is None:
        return None
    found = spans(groups, on, table.schema.field(on).type)
    if found is None:
        return None
    return [[groups[at] for at in numbers] for numbers in parted(found)]


def parted(found: Sequence[Span]) -> list[list[int]]:
    """The numbers of spans by stretches.

    Two spans that touch are apart only if the earlier one has the lower number: equal times stay in
    the order of the files.

    Example:
        >>> parted([(20, 29), (0, 9), (5, 12), (12, 15)])
        [[1, 2], [3], [0]]
    """
    order = sorted(range(len(found)), key=lambda at: (*found[at], at))
    # The lowest number of those from here on that begin at the same time.
    lowest = [*order]
    for place in range(len(order) - 2, -1, -1):
        if found[order[place]][0] == found[order[place + 1]][0]:
            lowest[place] = min(lowest[place], lowest[place + 1])
    parts: list[list[int]] = []
    # The last time so far, and the highest number that reaches it.
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
