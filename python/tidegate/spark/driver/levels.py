"""The overlap join as a DataFrame of Spark's own: equal keys and bins of levels, then the overlap.

No row goes to Python. Which bins a row has, and why each pair meets once: `layout/levels.py`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import LongType, TimestampNTZType

from tidegate.spark.driver.bins import (
    bin_of,
    equal_keys,
    later,
    measures,
    met,
    method_of,
    number,
    table_row,
)
from tidegate.spark.driver.overlap import ANY, lengths_of
from tidegate.spark.layout.bins import Width, costs
from tidegate.spark.layout.levels import fitting, known, measuring
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.layout.bins import Costs
    from tidegate.spark.layout.lengths import Sample
    from tidegate.spark.layout.levels import Lengths, Levels
    from tidegate.spark.plan.join import Plan

_EARLIEST = -(2**63)


def weighed(plan: Plan, sample: Sample) -> tuple[Levels, Costs]:
    """The levels that suit a sample, and what the join costs by them and by native calls.

    If bins are cheaper by the lengths of the sample, or were asked for, one job over starts and
    ends finds how long the rows are.
    """
    levels, costs = _weighed(plan, sample, known(sample))
    if plan.parallelism != "bins" and not costs.bins_are_cheaper:
        return levels, costs
    return _weighed(plan, sample, lengths_of(plan))


def _weighed(plan: Plan, sample: Sample, lengths: tuple[Lengths, Lengths]) -> tuple[Levels, Costs]:
    left, right = (len(plan.columns.of(side)) for side in (LEFT, RIGHT))
    columns = Width(left, right, len(plan.columns.result))
    # A side whose rows are returned without a partner has one place for each row.
    single = {"inner": (None, LEFT, RIGHT), "right": (RIGHT,)}.get(plan.query.how, (LEFT,))
    levels = fitting(sample, lengths, single, columns)
    once = plan.query.how in ("semi", "anti")
    measured = measures(plan.left.sparkSession)
    found = costs(levels, columns, measured=measured, once=once)
    return levels, found._replace(bins=found.bins + measuring(sample))


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
    sent = [F.col(f"u{at}").alias(f"{name}{at}") for at in range(len(mine.fields))]
    key = mine.key_hash(other) if mine.by else F.lit(0).cast(LongType())
    checked = _checked(plan, levels, side, start, end)
    rows = rows.select(*sent, checked.alias(f"{name}s"), end.alias(f"{name}e"), key.alias("key"))
    names = rows.columns[:-1] if _is_kept(plan, side) else rows.columns[:-3]
    bins = _bins(levels, side, F.col(f"{name}s"), F.col(f"{name}e"))
    rows = rows.select(*names, "key", bins.alias("bin"))
    # Of one key two bins make two hashes, so that no pair meets twice.
    hashed = F.col("key").bitwiseXOR(F.col("bin")).alias(f"{name}h")
    if levels.single is None and side == LEFT:
        return rows.select(*names, "bin", hashed)
    return rows.select(*names, hashed)


def _bins(levels: Levels, side: int, start: Column, end: Column) -> Column:
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
        return F.explode(F.concat(*every) if len(every) > 1 else every[0])
    covered = [_sequence(levels, cell, start, end) for cell in range(levels.cells)]
    by_level = []
    for level in range(len(levels.levels)):
        cells = [covered[cell] for cell in levels.cells_of(side, level)]
        by_level.append(F.concat(*cells) if len(cells) > 1 else cells[0])
    return F.explode(_by_level(levels, start, end, by_level))


def _before(start: Column, longest: int) -> Column:
    """The start of the earliest row that is so long and overlaps one with this start."""
    return F.lit(_EARLIEST) if longest >= ANY else later(start, -longest)


def _by_level(levels: Levels, start: Column, end: Column, values: list[Column]) -> Column:
    """The value of the lowest level for rows of this length."""
    found = values[-1]
    for level, value in [*zip(levels.levels, values, strict=True)][-2::-1]:
        found = F.when(end > later(start, level.longest), found).otherwise(value)
    return found


def _numbered(levels: Levels, cell: int, time: Column) -> Column:
    """The number of the bin of a time in a cell. No two cells have one number."""
    number = bin_of(time, levels.width_of(cell))
    if levels.cells == 1:
        return number
    return number * F.lit(levels.cells).cast(LongType()) + F.lit(cell).cast(LongType())


def _sequence(levels: Levels, cell: int, start: Column, end: Column) -> Column:
    """The numbers of the bins from a start to an end."""
    first, last = (_numbered(levels, cell, time) for time in (start, end))
    step = F.lit(levels.cells).cast(LongType())
    return F.when(first == last, F.array(first)).otherwise(F.sequence(first, last, step))


def _checked(plan: Plan, levels: Levels, side: int, start: Column, end: Column) -> Column:
    """The start of a row, or an error if it is after the end, or too far before it."""
    mine, names = plan.inputs[side], plan.query.intervals[side]
    if len(set(mine.interval)) == 1:
        return start
    first, last = (F.col(f"u{at}").cast("string") for at in mine.interval)
    quoted = [f"`{name}`" for name in names]
    late = F.concat(
        F.lit(f"{NAMES[side]}: a row has "),
        first,
        F.lit(f" in column {quoted[0]} and "),
        last,
        F.lit(
            f" in column {quoted[1]}, expected a start that is not after its end: swap the two, or "
            f'leave such rows out with .where("{quoted[0]} <= {quoted[1]}")'
        ),
    )
    name = NAMES[side]
    wide = F.lit(
        f"{name}: a row is longer than any was when this join was planned: the DataFrame gives "
        f"other rows each time that it is read; call {name}.cache() or checkpoint() before, or "
        "give parallelism='key'"
    )
    longest = levels.longest[side]
    checked = F.when(start > end, F.raise_error(late).cast(LongType()))
    if longest < ANY:
        checked = checked.when(end > later(start, longest), F.raise_error(wide).cast(LongType()))
    return checked.otherwise(start)


def _numbers(plan: Plan, side: int, prefix: str) -> tuple[Column, Column]:
    """The start and the end of a row as integers, made of its columns."""
    mine = plan.inputs[side]
    start, end = (
        number(F.col(f"{prefix}{at}"), mine.fields[at].dataType, in_days=plan.in_days)
        for at in mine.interval
    )
    return start, end


def _is_kept(plan: Plan, side: int) -> bool:
    """Whether times are sent as integers, too, since it takes long to make these."""
    mine = plan.inputs[side]
    return any(isinstance(mine.fields[at].dataType, TimestampNTZType) for at in mine.interval)


def _sent(plan: Plan, side: int) -> tuple[Column, Column]:
    """The start and the end of a row as integers, after the rows were sent."""
    name = NAMES[side][0]
    if _is_kept(plan, side):
        return F.col(f"{name}s"), F.col(f"{name}e")
    return _numbers(plan, side, name)


def _pairs(plan: Plan, levels: Levels) -> Column:
    """Whether two rows are a pair, and meet in the bin in which they are one."""
    (left_start, left_end), (right_start, right_end) = (_sent(plan, side) for side in (LEFT, RIGHT))
    start, end = F.greatest(left_start, right_start), F.least(left_end, right_end)
    # Not a sum, which may leave 64 bits.
    common = end >= start if plan.least_common == 0 else later(end, 1 - plan.least_common) > start
    conditions = [*equal_keys(plan), common]
    # `greatest` and `least` pass nulls over, and a row that is kept may have one.
    conditions += [time.isNotNull() for time in (left_start, left_end, right_start, right_end)]
    if levels.single is None:
        numbers = [_numbered(levels, cell, start) for cell in range(levels.cells)]
        met_in = numbers[0]
        if levels.cells > 1:
            cell = F.pmod(F.col("bin"), F.lit(levels.cells).cast(LongType()))
            for at, number_ in enumerate(numbers[1:], 1):
                met_in = F.when(cell == at, number_).otherwise(met_in)
        conditions.append(F.col("bin") == met_in)
    return reduce(Column.__and__, conditions)
