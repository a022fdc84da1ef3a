"""Builds a join that Spark itself runs, first on equal keys and time bins, then on the interval.

No rows are sent to Python. `layout/bins.py` determines which rows go into one bin and which are
copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.spark.driver import in_place
from tidegate.spark.driver.division import copied_sides
from tidegate.spark.driver.files import rows_of
from tidegate.spark.driver.java import NOT_TOLD
from tidegate.spark.driver.jobs import described
from tidegate.spark.layout.bins import are_safe, fitting, seen, unseen
from tidegate.spark.layout.costs import Asked, Width, costs
from tidegate.spark.plan.host import host_of
from tidegate.spark.plan.session import MEASURE, NO_LIMIT, shuffle_partitions, task_memory
from tidegate.spark.query.input import one_float
from tidegate.spark.query.schema import collected
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.layout.balance import Sample
    from tidegate.spark.layout.bins import Bins, Ends
    from tidegate.spark.layout.costs import Costs, Small, There
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.query.input import Input

_LEAST, _LARGEST = -(2**63), 2**63 - 1
_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000

# The maximum size in bytes of a Spark hash table in each task. Spark never spills it to disk.
_HASHED = 1 << 26

# The share of a task's memory that a hash table may use if rows with the same key and bin are
# adjacent.
_SHARE = 1 / 4

# The maximum size in bytes of a table of all copied rows that is sent to every task. Nothing is
# shuffled then.
_WHOLE = 1 << 26

# The maximum size in bytes of a hash table of all copied rows if nothing else is known about them.
# If most of them share one key and time, a single task receives them. The table can be larger if
# the settings grant each task more memory, and if rows with the same key and bin are adjacent.
_ONE_TASK = 1 << 29

# The number of rows that a job reads from the start of a large table, in half a second. A sample
# takes several seconds, because it reads all rows.
_FIRST = 10_000

# Costs of at least this many seconds are printed as whole numbers.
_ROUND = 10

# The size in bytes of a row in a hash table, and of each of its columns.
_ROW, _CELL = 48, 16


def joined(plan: Plan, bins: Bins) -> DataFrame:
    """Return the join as a DataFrame."""
    sides = [_binned(plan, bins, side) for side in (LEFT, RIGHT)]
    copied, method = NAMES.index(bins.copied), hashed(plan, bins)
    if plan.partitions is not None and method == "broadcast":
        sides[1 - copied] = sides[1 - copied].coalesce(plan.partitions)
    elif plan.partitions is not None:
        sides = [rows.repartition(plan.partitions, rows.columns[-1]) for rows in sides]
    if method is not None:
        sides[copied] = sides[copied].hint(method)
    left, right = sides
    how = {"semi": "left_semi", "anti": "left_anti"}.get(plan.query.how, plan.query.how)
    return left.join(right, _pairs(plan, bins.ends), how).select(*_results(plan))


def weighed(
    plan: Plan, sample: Sample, small: Small | None = None, there: There | None = None
) -> tuple[Bins, Costs]:
    """Return the bins that suit a sample, and the join's cost in each form."""
    rows = len(sample.left_time) * sample.weight, len(sample.right_time) * sample.weight
    asked = asked_of(plan)
    bins = fitting(sample, _copied(plan, rows), plan.ends, asked)
    stay = bins.rows - bins.of_copied if hashed(plan, bins) == "broadcast" else 0.0
    return bins, costs(bins, asked, small and small._replace(rows=rows), there, stay=stay)


def without_sample(plan: Plan) -> Bins | None:
    """Return bins that are safe for any keys and times, or None if there are no such bins.

    File metadata must show how many rows each side has. The bins must not cost noticeably more than
    native calls, regardless of the number of pairs. In addition, one task must be able to hold all
    copied rows, regardless of their keys and times. If the table of copied rows is large, a job
    reads the start of the table to check whether rows with the same key and bin are adjacent.
    """
    asked = asked_of(plan)
    found = [rows_of(one.frame, filtered=False) for one in plan.inputs]
    left, right = (None if rows is None else rows.number for rows in found)
    if left is None or right is None:
        return None
    bins = unseen((left, right), _copied(plan, (left, right)), plan.ends)
    # Rows that are already partitioned by their keys may stay in place; only a sample shows that.
    if not are_safe(bins, asked) or in_place.found(plan) is not None:
        return None
    size = _table_size(plan, bins)
    if size > _ONE_TASK or hashed(plan, bins) is None:
        if size > task_memory(plan.left.sparkSession):
            return None
        bins = _looked_at(plan, bins)
        if not bins.together or hashed(plan, bins) is None:
            return None
    return bins


def _looked_at(plan: Plan, bins: Bins) -> Bins:
    """Run a job that checks whether rows with the same key and bin are adjacent.

    Returns the bins with the outcome.
    """
    copied = NAMES.index(bins.copied)
    mine, other = plan.inputs[copied], plan.inputs[1 - copied]
    first = mine.without_unmatchable().select(
        F.expr(mine.key_hash(other)).alias("hash"), mine.value.alias("time")
    )
    with described(plan.left.sparkSession, f"look at the first {_FIRST:,} {bins.copied} rows"):
        rows = collected(first.limit(_FIRST))
    return seen(bins, rows.column("hash").to_numpy(), plan.axis.integers(rows.column("time")))


def _copied(plan: Plan, rows: tuple[float, float]) -> Literal["left", "right"]:
    """Return the side to copy into bins, given the number of rows on each side."""
    # A full join would have to copy both sides, so it has no bins.
    sides: list[Literal["left", "right"]] = [
        side for side in copied_sides(plan, rows) if side != "both"
    ]
    return sides[0]


def asked_of(plan: Plan) -> Asked:
    """Return the properties of a join, other than its rows, that affect its cost."""
    left, right = (len(plan.columns.of(side)) for side in (LEFT, RIGHT))
    columns = Width(left, right, len(plan.columns.result))
    once = plan.query.how in ("semi", "anti")
    session = plan.left.sparkSession
    prices = host_of(session).prices
    return Asked(columns, measured=measures(session), once=once, prices=prices)


def measures(session: SparkSession) -> bool:
    """Return whether Spark measures the batch after each row that it passes to Python."""
    try:
        return session.conf.get(MEASURE) != NO_LIMIT
    except NOT_TOLD:
        return False


def told(costs: Costs, small: str | None = None) -> str:
    """Return the costs of all forms as text; `small` names the side that may be sent in full."""
    whole = f"with {small} whole"
    forms = [(costs.bins, "by bins"), (costs.native, "natively"), (costs.whole, whole)]
    forms.append((costs.in_place, "in place"))
    texts = [f"{seconds(cost)} {how}" for cost, how in forms if cost is not None]
    first = texts[0].replace(" s ", " s of processor time ", 1)
    return ", ".join([f"about {first}", *texts[1:]])


def seconds(cost: float) -> str:
    """Return a cost as text."""
    return f"{cost:,.0f} s" if cost >= _ROUND else f"{cost:.2g} s"


def hashed(plan: Plan, bins: Bins) -> str | None:
    """Return Spark's join hint for the copied rows, either `broadcast` or `shuffle_hash`.

    Returns None if a task's share of the rows is too large for a hash table. Spark then sorts the
    rows.
    """
    size = _table_size(plan, bins)
    if size <= _WHOLE:
        return "broadcast"
    session = plan.left.sparkSession
    if host_of(session).is_sail:
        # Sail hashes rows in any case.
        return "shuffle_hash"
    most = max(_HASHED, _SHARE * task_memory(session)) if bins.together else _HASHED
    partitions = plan.partitions or shuffle_partitions(session)
    return "shuffle_hash" if size <= most * partitions else None


def _table_size(plan: Plan, bins: Bins) -> float:
    """Return the size, in bytes, of a hash table of all copied rows."""
    rows, columns = bins.of_copied + bins.copies, plan.columns.of(NAMES.index(bins.copied))
    return rows * (_ROW + _CELL * len(columns))


def _binned(plan: Plan, bins: Bins, side: int) -> DataFrame:
    """Return one side's rows as columns such as `l0` and `l1`, and `lh`.

    The column `lh` is a hash of the key and the bin.
    """
    mine, other = plan.inputs[side], plan.inputs[1 - side]
    name = NAMES[side][0]
    rows = mine.frame if plan.keeps[side] else mine.without_unmatchable()
    # Spark applies the filters that it infers from the condition after this step, so it does not
    # filter out null times before they are checked.
    columns = [F.col(f"u{at}") for at in range(len(mine.fields))]
    columns[mine.on] = _checked(plan, side)
    rows = rows.select(*(column.alias(f"u{at}") for at, column in enumerate(columns)))
    sent = [f"u{at} {name}{at}" for at in range(len(mine.fields))]
    time = _number(mine, other, f"u{mine.on}")
    rows = rows.selectExpr(*sent, f"{time} {name}t", f"{mine.key_hash(other)} key")
    names = rows.columns[:-1] if _is_kept(mine) else rows.columns[:-2]
    time = f"{name}t"
    if NAMES[side] != bins.copied:
        rows = rows.selectExpr(*names, "key", f"{_bin(time, bins.width)} bin")
    else:
        lower, upper = bins.ends
        ends = (lower, upper) if side == LEFT else (-upper, -lower)
        first, last = (_bin(_later(time, end), bins.width) for end in ends)
        rows = rows.selectExpr(*names, "key", f"{first} first", f"{last} last")
        rows = rows.selectExpr(*names, "key", "first", "case when last <> first then last end last")
        rows = rows.unpivot([*names, "key"], ["first", "last"], "which", "bin")
        rows = rows.where("bin is not null")
    # Two bins of the same key have different hashes, so no pair is found twice.
    return rows.selectExpr(*names, f"key ^ bin {name}h")


def _checked(plan: Plan, side: int) -> Column:
    """Return the time column; reading a null time raises an error."""
    mine = plan.inputs[side]
    field = mine.fields[mine.on]
    if not field.nullable:
        return mine.value
    column = plan.columns.of(side).names[mine.on]
    message = f"{NAMES[side]}: the time column {column!r} is null in a row; "
    message += f"drop such rows with .dropna(subset=[{column!r}]), or fill in the missing times"
    lacking = F.raise_error(F.lit(message)).cast(field.dataType)
    return F.when(mine.value.isNull(), lacking).otherwise(mine.value)


def _is_kept(side: Input) -> bool:
    """Return whether times are also sent as integers, which avoids slow conversions."""
    return isinstance(side.value_type, TimestampNTZType)


def _number(mine: Input, other: Input, time: str) -> str:
    """Return the time as an integer: in days if both sides have dates, else in microseconds."""
    kinds = mine.value_type, other.value_type
    return number(time, kinds[0], in_days=all(isinstance(kind, DateType) for kind in kinds))


# The functions below return SQL, because each operation on a `Column` takes a dozen calls to
# Spark's process.


def number(time: str, kind: DataType, *, in_days: bool) -> str:
    """Return a time of this type as an integer: unchanged, in days, or in microseconds."""
    if isinstance(kind, IntegralType):
        return f"cast({time} as bigint)"
    if isinstance(kind, TimestampType):
        return f"unix_micros({time})"
    days = f"cast(unix_date(cast({time} as date)) as bigint)"
    if in_days:
        return days
    if not isinstance(kind, TimestampNTZType):
        far = "raise_error('a date is too far away to be compared with a timestamp')"
        is_far = f"abs({days}) > {_LARGEST // _DAY}L"
        return f"(case when {is_far} then cast({far} as bigint) else {days} * {_DAY}L end)"
    # Every Spark function for this conversion depends on the session time zone.
    seconds = f"cast(date_part('SECOND', {time}) * {_SECOND}L as bigint)"
    clock = f"cast(hour({time}) as bigint) * {_HOUR}L + cast(minute({time}) as bigint) * {_MINUTE}L"
    return f"({days} * {_DAY}L + {clock} + {seconds})"


def _bin(time: str, width: int) -> str:
    """Return the bin of a time.

    The bin around 0 is about twice as wide as the others.
    """
    return f"({time} div {width}L)"


def _later(time: str, by: int) -> str:
    """Return the time plus `by`, clamped to the 64-bit range."""
    if by >= 0:
        return f"(least({time}, {_LARGEST - by}L) + {by}L)"
    return f"(greatest({time}, {_LEAST - by}L) - {-by}L)"


def _pairs(plan: Plan, ends: Ends) -> Column:
    """Return the condition under which two rows match, without sums that could exceed 64 bits."""
    left, right = (_sent_number(plan, side) for side in (LEFT, RIGHT))
    lower, upper = ends
    after = f"{right} >= {_later(left, lower)}"
    if lower > 0:
        after = f"{_later(right, 1 - lower)} > {left}"
    before = f"{right} <= {_later(left, upper)}"
    if upper < 0:
        before = f"{_later(left, upper + 1)} > {right}"
    # Spark does not recognize the equalities inside `coalesce`. Its only equality key is therefore
    # the hash, a single integer.
    keys = zip(*(_keys(plan, side) for side in (LEFT, RIGHT)), strict=True)
    equal = [f"coalesce({mine} = {other}, false)" for mine, other in keys]
    return F.expr(" and ".join(["lh = rh", *equal, after, before]))


def _keys(plan: Plan, side: int) -> list[str]:
    """Return SQL for the keys, from the columns that were sent."""
    mine, name = plan.inputs[side], NAMES[side][0]
    return [one_float(f"{name}{at}", mine.fields[at].dataType) for at in mine.by]


def _sent_number(plan: Plan, side: int) -> str:
    """Return SQL that computes the time as an integer from the columns that were sent."""
    mine, other = plan.inputs[side], plan.inputs[1 - side]
    name = NAMES[side][0]
    if _is_kept(mine):
        return f"{name}t"
    return _number(mine, other, f"{name}{mine.on}")


def _results(plan: Plan) -> list[Column]:
    """Return the result columns with their names and metadata."""
    shared = {mine: other for mine, other in plan.native.keys if mine == other}
    results = []
    for field, origin in zip(plan.columns.result, plan.columns.origins, strict=True):
        side = NAMES.index(origin.side)
        at = plan.columns.of(side).names.index(origin.name)
        column = F.col(f"{origin.side[0]}{at}")
        if side == LEFT and plan.keeps[RIGHT] and origin.name in shared:
            other = plan.columns.right.names.index(shared[origin.name])
            # If the types of the two sides differ, the result has the wider type.
            column = F.coalesce(column, F.col(f"r{other}"))
        results.append(column.alias(field.name, metadata=field.metadata))
    return results
