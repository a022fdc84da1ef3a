"""Decides whether the inputs of a call are read whole, in part, or slice by slice.

A call with a `memory_limit` processes its rows slice by slice. A call without a limit is also
processed slice by slice, but only if the result has the same rows in the same order. This requires
that all inputs are large Parquet files in time order, and that rows match only within a bounded
distance in time. Smaller files are read whole, which is faster. In that case, a join skips row
groups whose rows cannot match.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate import TidegateError, _tidegate
from tidegate.bounded import aggregates as bounded_aggregates
from tidegate.bounded import joins as bounded_joins
from tidegate.bounded import results
from tidegate.bounded.ordered import ascends, opened_in_batches
from tidegate.bounded.ordered import check_lateness as check_lateness_of
from tidegate.bounded.shares import LARGE
from tidegate.bounded.stretches import stretches
from tidegate.calls.inputs import (
    Input,
    elsewhere,
    listed,
    names,
    of_sides,
    of_streams,
    rows_of,
)
from tidegate.io.open_tables import OpenTable, advising, checked, of_one_type
from tidegate.io.pruning import Group, bytes_of, pruned, row_groups, spans
from tidegate.io.read_files import STREAM_BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tidegate._tidegate import (
        AggregationPlan,
        AggregationQuery,
        BatchReader,
        JoinPlan,
        JoinQuery,
        RollingQuery,
    )
    from tidegate.bounded.limits import Limits
    from tidegate.bounded.results import Result

    AnyQuery: TypeAlias = AggregationQuery | RollingQuery
    """A query that aggregates rows of one or more inputs with the same columns."""

SIDES = ("left", "right")


def names_of(query: AnyQuery, inputs: int) -> list[str]:
    """Return the names of a query's inputs, as shown in messages."""
    return names(inputs, "table" if isinstance(query, _tidegate.RollingQuery) else "streams")


@dataclass(frozen=True)
class Choice:
    """The way to read inputs (slice by slice or whole), with the reason."""

    is_sliced: bool
    why: str

    def __str__(self) -> str:
        """Return the line to show in an explanation."""
        return f"  inputs     {'slice by slice' if self.is_sliced else 'read whole'}: {self.why}"


# Joins


def joined_table(query: JoinQuery, left: Any, right: Any, limits: Limits | None) -> pa.Table:  # noqa: ANN401 - any inputs
    """Join two inputs of any kind."""
    if limits is None:
        inputs = of_sides(left, right)
        with advising(inputs):
            plan = query.plan(inputs[0].schema, inputs[1].schema)
        return query.table(*_whole(query, plan, inputs))
    reader = _join_in_slices(query, left, right, limits)
    return results.table(reader, limits.memory, f"{query.function}_batches")


def joined_batches(
    query: JoinQuery,
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    limits: Limits | None,
) -> BatchReader[Any]:
    """Join two inputs of any kind, batch by batch."""
    if limits is not None:
        return _join_in_slices(query, left, right, limits)
    inputs = of_sides(left, right)
    with advising(inputs):
        plan = query.plan(inputs[0].schema, inputs[1].schema)
    if elsewhere(lambda: of_join(query, plan, inputs)).is_sliced:
        tables = [replace(one, is_in_order=True) for one in inputs if isinstance(one, OpenTable)]
        made = elsewhere(lambda: bounded_joins.joined(query, plan, (tables[0], tables[1]), None))
        return _reader(query.function, made)
    return query.batches(*_whole(query, plan, inputs))


def _join_in_slices(
    query: JoinQuery,
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    limits: Limits,
) -> BatchReader[Any]:
    def begin() -> Result:
        inputs = opened_in_batches(left, "left"), opened_in_batches(right, "right")
        with advising(inputs):
            plan = query.plan(inputs[0].schema, inputs[1].schema)
        return bounded_joins.joined(query, plan, inputs, limits)

    return _reader(query.function, elsewhere(begin))


def _whole(
    query: JoinQuery, plan: JoinPlan, inputs: tuple[Input, Input]
) -> list[pa.Table | _tidegate.InputRows | _tidegate.Index]:
    """Return the rows from both sides that may match, with only the columns that the join needs."""
    left, right = inputs
    # Only rows that have not been read yet can be skipped.
    if not any(isinstance(one, _tidegate.InputRows | _tidegate.Index) for one in inputs):
        left, right = elsewhere(lambda: pruned(left, right, plan, query.how))
    of_each = zip(SIDES, (left, right), plan.needed, strict=True)
    return [rows_of(name, one, columns) for name, one, columns in of_each]


def of_join(
    query: JoinQuery, plan: JoinPlan, inputs: tuple[Input, Input], *, reads_times: bool = True
) -> Choice:
    """Choose how to read the inputs of a join that has no memory limit.

    Args:
        query: The join.
        plan: The join's plan for these inputs.
        inputs: The left and right inputs.
        reads_times: Whether to read the times if the statistics do not determine their order.
    """
    tables = [one for one in inputs if isinstance(one, OpenTable)]
    if len(tables) < len(inputs):
        return Choice(is_sliced=False, why="an input is already in memory")
    if why := _whole_algorithm(query.arguments.get("algorithm", "auto")):
        return Choice(is_sliced=False, why=why)
    try:
        reach = bounded_joins.reach_of(query, plan)
    except TidegateError:
        return Choice(is_sliced=False, why="matching rows may be any distance apart in time")
    if reach.upper is None or (reach.lower is None and not reach.looks_back):
        return Choice(is_sliced=False, why="matching rows may be any distance apart in time")
    return _by_order(tables, SIDES, reach.starts, plan.needed, reads_times=reads_times)


def times_of(query: JoinQuery, plan: JoinPlan) -> tuple[str, str]:
    """Return the columns that order the rows on each side.

    Raises:
        TidegateError: The join has no time column that can be used to divide its rows.
    """
    return bounded_joins.reach_of(query, plan).starts


# Aggregations


def aggregated_table(query: AnyQuery, streams: Any, limits: Limits | None) -> pa.Table:  # noqa: ANN401 - any streams
    """Aggregate streams of any kind."""
    if limits is None:
        inputs = of_streams(streams, names_of(query, 1)[0])
        with advising(inputs):
            plan = query.plan([one.schema for one in inputs])
        return query.table(_columns_read(query, plan, inputs))
    reader = _aggregate_in_slices(query, streams, limits)
    return results.table(reader, limits.memory, f"{_function(query)}_batches")


def aggregated_batches(
    query: AnyQuery,
    streams: Any,  # noqa: ANN401 - any streams
    limits: Limits | None,
) -> BatchReader[Any]:
    """Aggregate streams of any kind, batch by batch."""
    if limits is not None:
        return _aggregate_in_slices(query, streams, limits)
    inputs = of_streams(streams, names_of(query, 1)[0])
    with advising(inputs):
        plan = query.plan([one.schema for one in inputs])
    if elsewhere(lambda: of_aggregation(query, plan, inputs)).is_sliced:
        tables = [replace(one, is_in_order=True) for one in inputs if isinstance(one, OpenTable)]
        made = elsewhere(lambda: bounded_aggregates.aggregated(query, plan, tables, None))
        return _reader(_function(query), made)
    rows = _columns_read(query, plan, inputs)
    if isinstance(query, _tidegate.RollingQuery):
        return query.batches(rows)
    found = query.table(rows)
    return _reader("aggregate", results.known(found.to_reader()))


def _aggregate_in_slices(
    query: AnyQuery,
    streams: Any,  # noqa: ANN401 - any streams
    limits: Limits,
) -> BatchReader[Any]:
    every = listed(streams)

    def begin() -> Result:
        of_each = zip(every, names_of(query, len(every)), strict=True)
        tables = of_one_type([opened_in_batches(one, name) for one, name in of_each])
        with advising(tables):
            plan = query.plan([one.schema for one in tables])
        return bounded_aggregates.aggregated(query, plan, tables, limits)

    return _reader(_function(query), elsewhere(begin))


def _function(query: AnyQuery) -> str:
    return "rolling" if isinstance(query, _tidegate.RollingQuery) else "aggregate"


def _columns_read(query: AnyQuery, plan: AggregationPlan, inputs: Sequence[Input]) -> list[Any]:
    """Return the rows from each stream, with only the columns that the aggregation reads."""
    of_each = zip(names_of(query, len(inputs)), inputs, plan.columns, strict=True)
    return [rows_of(name, one, columns) for name, one, columns in of_each]


def of_aggregation(
    query: AnyQuery,
    plan: AggregationPlan,
    inputs: Sequence[Input],
    *,
    reads_times: bool = True,
) -> Choice:
    """Choose how to read the inputs of an aggregation; see `of_join` for the arguments."""
    tables = [one for one in inputs if isinstance(one, OpenTable)]
    if len(tables) < len(inputs):
        return Choice(is_sliced=False, why="a stream is already in memory")
    given = query.arguments
    if why := _whole_algorithm(given.get("algorithm", "auto")):
        return Choice(is_sliced=False, why=why)
    if given.get("empty") not in (None, "skip") and given["keep"] is None:
        return Choice(is_sliced=False, why="the last row of each key determines its empty windows")
    types = [
        [table.schema.field(name).type for name in columns]
        for table, columns in zip(tables, plan.columns, strict=True)
    ]
    if any(of_one != types[0] for of_one in types):
        return Choice(is_sliced=False, why="a column has different types in different streams")
    on = [query.on] * len(tables)
    return _by_order(
        tables, names_of(query, len(tables)), on, plan.columns, reads_times=reads_times
    )


# Both


def _reader(function: str, made: Result) -> BatchReader[Any]:
    return _tidegate.reader_of(made, f"{function}_batches")


def _whole_algorithm(algorithm: str) -> str:
    return "" if algorithm == "auto" else f'algorithm="{algorithm}" works on whole tables'


def check_lateness(
    plan: JoinPlan | AggregationPlan, times: Sequence[str], late: Sequence[Any]
) -> None:
    """Raise the error that a call would raise for an invalid lateness."""
    for schema, on, lateness in zip(plan._inputs, times, late, strict=True):  # noqa: SLF001 - internal to the package
        check_lateness_of(lateness, on, schema)


def in_time_order(
    tables: Sequence[OpenTable], of_each: Sequence[str], times: Sequence[str], late: Sequence[Any]
) -> str:
    """Return a line that shows how each input's rows are brought into time order.

    Args:
        tables: The inputs.
        of_each: The name of each input.
        times: The time column of each input.
        late: The maximum time by which rows from each input may be out of order.
    """
    told = []
    for one, name, on, lateness in zip(tables, of_each, times, late, strict=True):
        if lateness is not None:
            told.append(f"{name}: in order, apart from its lateness")
        elif found := stretches(one, on):
            groups = sum(map(len, found))
            told.append(
                f"{name}: {groups} row groups in {len(found)} time spans, each sorted as it is read"
            )
        else:
            told.append(f"{name}: sorted in full, unless already in time order")
    return f"  inputs     {'; '.join(told)}"


def _by_order(
    tables: Sequence[OpenTable],
    of_each: Sequence[str],
    times: Sequence[str],
    columns: Sequence[Sequence[str]],
    *,
    reads_times: bool,
) -> Choice:
    groups = [row_groups(table) for table in tables]
    size = 0
    for name, found, needed in zip(of_each, groups, columns, strict=True):
        if found is None:
            why = f"{name} has no Parquet statistics that show the order"
            return Choice(is_sliced=False, why=why)
        size += bytes_of(found, needed)
    if size < LARGE:
        why = f"their columns take up {size:,} bytes, less than {LARGE:,}"
        return Choice(is_sliced=False, why=why)
    for name, table, found, on in zip(of_each, tables, groups, times, strict=True):
        if why := _out_of_order(name, table, found or [], on, reads_times=reads_times):
            return Choice(is_sliced=False, why=why)
    why = "both are" if len(tables) == 2 else "all are" if len(tables) > 1 else "it is"  # noqa: PLR2004
    why += " in time order, according to the file statistics"
    if not reads_times:
        why += "; the times are read first to confirm this"
    return Choice(is_sliced=True, why=why)


def _out_of_order(
    name: str, table: OpenTable, groups: list[Group], on: str, *, reads_times: bool
) -> str:
    found = spans(groups, on, table.schema.field(on).type)
    if found is None:
        return f"the files of {name} have no statistics for `{on}`, or contain a null time"
    for (_, last), (first, _) in itertools.pairwise(found):
        if first < last:
            return f"the statistics of {name} show that its rows are not ordered by `{on}`"
    if reads_times and not ascends(checked(table.few([on], STREAM_BATCH_ROWS), name)):
        return f"the rows of {name} are not ordered by `{on}`"
    return ""
