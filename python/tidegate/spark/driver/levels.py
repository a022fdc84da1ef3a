"""The overlap join as a DataFrame of Spark's own: equal keys and bins of levels, then the overlap.

No row goes to Python. Which bins a row has, and why each pair meets once: `layout/levels.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import TimestampNTZType

from tidegate.spark.driver.bins import (
    asked_of,
    bin_of,
    equal_keys,
    later,
    met,
    method_of,
    number,
    table_row,
)
from tidegate.spark.driver.overlap import ANY, lengths_of
from tidegate.spark.layout.costs import costs
from tidegate.spark.layout.levels import fitting, known, measuring
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.layout.costs import Costs, Small, There
    from tidegate.spark.layout.lengths import Sample
    from tidegate.spark.layout.levels import Lengths, Levels
    from tidegate.spark.plan.join import Plan

_EARLIEST = -(2**63)


def weighed(
    plan: Plan, sample: Sample, small: Small | None = None, there: There | None = None
) -> tuple[Levels, Costs]:
    """The levels that suit a sample, and what the join costs in each of its forms.

    If bins are the cheapest by the lengths of the sample, or were asked for, one job over starts
    and ends finds how long the rows are.
    """
    levels, costs = with_lengths(plan, sample, known(sample), small, there)
    if plan.parallelism != "bins" and costs.cheapest != "bins":
        return levels, costs
    return with_lengths(plan, sample, lengths_of(plan), small, there)


def with_lengths(
    plan: Plan,
    sample: Sample,
    lengths: tuple[Lengths, Lengths],
    small: Small | None,
    there: There | None = None,
) -> tuple[Levels, Costs]:
    """The same if rows are so long. The job that finds how long rows are is a cost of bins."""
    asked = asked_of(plan)
    # A side whose rows are returned without a partner has one place for each row.
    single = {"inner": (None, LEFT, RIGHT), "right": (RIGHT,)}.get(plan.query.how, (LEFT,))
    levels = fitting(sample, lengths, single, asked.columns)
    left, right = (len(side.hashes) * sample.weight for side in sample.sides)
    stay = levels.placed[1 - built(plan, levels)] if method(plan, levels) == "broadcast" else 0.0
    found = costs(levels, asked, small and small._replace(rows=(left, right)), there, stay=stay)
    bins = None if found.bins is None else found.bins + measuring(sample)
    return levels, found._replace(bins=bins)


def joined(plan: Plan, levels: Levels) -> DataFrame:
    """The join as a DataFrame."""
    sides = [_placed(plan, levels, side) for side in (LEFT, RIGHT)]
    return met(plan, sides, _pairs(plan, levels), built(plan, levels), method(plan, levels))


def built(plan: Plan, levels: Levels) -> int:
    """The side that Spark makes a table of: the one with fewer bytes, if it may be either."""
    if plan.query.how != "inner":
        return RIGHT if levels.single == LEFT else LEFT
    left, right = (levels.placed[side] * table_row(plan, side) for side in (LEFT, RIGHT))
    return LEFT if left < right else RIGHT


def method(plan: Plan, levels: Levels) -> str | None:
    """How Spark is told to keep that side."""
    side = built(plan, levels)
    return method_of(plan, side, levels.placed[side])


def _placed(plan: Plan, levels: Levels, side: int) -> DataFrame:
    """The rows of a side in their bins: `l0`, `l1` or `r0`, `r1`, and a hash of key and bin, `lh`.

    In front of the hash, left rows have the number of their bin if both sides have several.
    """
    mine, other = plan.inputs[side], plan.inputs[1 - side]
    name = NAMES[side][0]
    rows = mine.frame if plan.keeps[side] else mine.without_unmatchable()
    start, end = _numbers(plan, side, "u")
    sent = [f"u{at} {name}{at}" for at in range(len(mine.fields))]
    checked = _checked(plan, levels, side, start, end)
    key = f"{mine.key_hash(other)} key"
    rows = rows.selectExpr(*sent, f"{checked} {name}s", f"{end} {name}e", key)
    names = rows.columns[:-1] if _is_kept(plan, side) else rows.columns[:-3]
    bins = _bins(levels, side, f"{name}s", f"{name}e")
    rows = rows.selectExpr(*names, "key", f"{bins} bin")
    # Of one key two bins make two hashes, so that no pair meets twice.
    hashed = f"key ^ bin {name}h"
    if levels.single is None and side == LEFT:
        return rows.selectExpr(*names, "bin", hashed)
    return rows.selectExpr(*names, hashed)


# What follows is SQL, as in `bins.py`.


def _bins(levels: Levels, side: int, start: str, end: str) -> str:
    """The number of a row's bin and cell, or of each."""
    if levels.single == side:
        return _by_level(
            levels, start, end, [_numbered(levels, cell, start) for cell in range(levels.cells)]
        )
    if levels.single is not None:
        every = [
            _sequence(levels, cell, _before(start, level.longest), end)
            for cell, level in enumerate(levels.levels)
        ]
        return f"explode({_together(every)})"
    covered = [_sequence(levels, cell, start, end) for cell in range(levels.cells)]
    by_level = [
        _together([covered[cell] for cell in levels.cells_of(side, level)])
        for level in range(len(levels.levels))
    ]
    return f"explode({_by_level(levels, start, end, by_level)})"


def _together(arrays: list[str]) -> str:
    return f"concat({', '.join(arrays)})" if len(arrays) > 1 else arrays[0]


def _before(start: str, longest: int) -> str:
    """The start of the earliest row that is so long and overlaps one with this start."""
    return f"{_EARLIEST}L" if longest >= ANY else later(start, -longest)


def _by_level(levels: Levels, start: str, end: str, values: list[str]) -> str:
    """The value of the lowest level for rows of this length."""
    found = values[-1]
    for level, value in [*zip(levels.levels, values, strict=True)][-2::-1]:
        found = f"case when {end} > {later(start, level.longest)} then {found} else {value} end"
    return found


def _numbered(levels: Levels, cell: int, time: str) -> str:
    """The number of the bin of a time in a cell. No two cells have one number."""
    number = bin_of(time, levels.width_of(cell))
    return number if levels.cells == 1 else f"({number} * {levels.cells}L + {cell}L)"


def _sequence(levels: Levels, cell: int, start: str, end: str) -> str:
    """The numbers of the bins from a start to an end."""
    first, last = (_numbered(levels, cell, time) for time in (start, end))
    every = f"sequence({first}, {last}, {levels.cells}L)"
    return f"case when {first} = {last} then array({first}) else {every} end"


def _checked(plan: Plan, levels: Levels, side: int, start: str, end: str) -> str:
    """The start of a row, or an error if it is after the end, or too far before it."""
    mine, names = plan.inputs[side], plan.starts_and_ends_named[side]
    if len(set(mine.interval)) == 1:
        return start
    first, last = (f"cast(u{at} as string)" for at in mine.interval)
    quoted = [f"`{name}`" for name in names]
    texts = [
        _quoted(f"{NAMES[side]}: a row has "),
        first,
        _quoted(f" in column {quoted[0]} and "),
        last,
        _quoted(
            f" in column {quoted[1]}, expected a start that is not after its end: swap the two, or "
            f'exclude such rows with .where("{quoted[0]} <= {quoted[1]}")'
        ),
    ]
    late = f"raise_error(concat({', '.join(texts)}))"
    checked = f"case when {start} > {end} then cast({late} as bigint)"
    longest = levels.longest[side]
    if longest < ANY:
        name = NAMES[side]
        wide = _quoted(
            f"{name}: a row is longer than any was when this join was planned: the DataFrame gives "
            f"other rows each time that it is read; call {name}.cache() or checkpoint() before, or "
            "give parallelism='key'"
        )
        beyond = f"{end} > {later(start, longest)}"
        checked += f" when {beyond} then cast(raise_error({wide}) as bigint)"
    return f"{checked} else {start} end"


def _quoted(text: str) -> str:
    """A text in SQL, whatever settings say of quotes, backslashes and variables."""
    return f"decode(X'{text.encode().hex()}', 'utf-8')"


def _numbers(plan: Plan, side: int, prefix: str) -> tuple[str, str]:
    """The start and the end of a row as integers, made of its columns."""
    mine = plan.inputs[side]
    start, end = (
        number(f"{prefix}{at}", mine.fields[at].dataType, in_days=plan.in_days)
        for at in mine.interval
    )
    return start, end


def _is_kept(plan: Plan, side: int) -> bool:
    """Whether times are sent as integers, too, since it takes long to make these."""
    mine = plan.inputs[side]
    return any(isinstance(mine.fields[at].dataType, TimestampNTZType) for at in mine.interval)


def _sent(plan: Plan, side: int) -> tuple[str, str]:
    """The start and the end of a row as integers, after the rows were sent."""
    name = NAMES[side][0]
    if _is_kept(plan, side):
        return f"{name}s", f"{name}e"
    return _numbers(plan, side, name)


def _pairs(plan: Plan, levels: Levels) -> Column:
    """Whether two rows are a pair, and meet in the bin in which they are one."""
    (left_start, left_end), (right_start, right_end) = (_sent(plan, side) for side in (LEFT, RIGHT))
    start, end = f"greatest({left_start}, {right_start})", f"least({left_end}, {right_end})"
    # Not a sum, which may leave 64 bits.
    common = f"{end} >= {start}"
    if plan.least_common != 0:
        common = f"{later(end, 1 - plan.least_common)} > {start}"
    conditions = [*equal_keys(plan), common]
    # `greatest` and `least` pass nulls over, and a row that is kept may have one.
    times = left_start, left_end, right_start, right_end
    conditions += [f"{time} is not null" for time in times]
    if levels.single is None:
        numbers = [_numbered(levels, cell, start) for cell in range(levels.cells)]
        met_in = numbers[0]
        if levels.cells > 1:
            for cell, number_ in enumerate(numbers[1:], 1):
                is_here = f"pmod(bin, {levels.cells}L) = {cell}"
                met_in = f"case when {is_here} then {number_} else {met_in} end"
        conditions.append(f"bin = {met_in}")
    return F.expr(" and ".join(conditions))
