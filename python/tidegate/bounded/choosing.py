"""Whether a call without a `memory_limit` takes its rows slice by slice all the same.

It does so if that gives the same rows in the same order as whole inputs: all inputs are Parquet
files in time order, and rows reach a bounded time. Files that fit memory easily are read whole,
which is faster.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidegate import TidegateError, _tidegate
from tidegate.bounded.joins import how_of, reach_of
from tidegate.bounded.ordered import Given, ascends
from tidegate.bounded.shares import BY_ITSELF, LARGE
from tidegate.bounded.stretches import stretches
from tidegate.io.events import STREAM_BATCH_ROWS, Reading
from tidegate.io.given import (
    STREAMED,
    WHOLE,
    OpenTable,
    checked,
    is_table,
    of_one_type,
    open_files,
    open_table,
)
from tidegate.io.pruning import Group, bytes_of, pruned, row_groups, spans


@dataclass(frozen=True)
class Choice:
    """How the inputs are read, and why."""

    inputs: tuple[OpenTable, ...]
    streams: bool
    why: str

    def __str__(self) -> str:
        """A line of an explanation."""
        return f"  inputs     {'slice by slice' if self.streams else 'read whole'}: {self.why}"


def prepared(
    name: str, inputs: tuple[Any, ...], arguments: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of a call as they are read, and arguments that it has beside its own.

    Args:
        name: Of the native function.
        inputs: Its inputs. At least one is of files.
        arguments: Its other arguments, which need not be right: the call itself refuses them.
    """
    if name in {"merge", "merge_batches"}:
        return (_merged(inputs[0], WHOLE if name == "merge" else STREAMED),), {}
    if any(arguments.get(one) is not None for one in ("memory_limit", "lateness")):
        return inputs, {}
    if name.startswith("aggregate"):
        return _prepared_streams(name, inputs[0], arguments)
    tables = tuple(
        one if _is_arrow(one) else open_table(one, side)
        for one, side in zip(inputs, ("left", "right"), strict=True)
    )
    try:
        if name.endswith("_batches") and not any(map(_is_arrow, tables)):
            choice = of_join(name, (tables[0], tables[1]), arguments)
            if choice.streams:
                return choice.inputs, {"memory_limit": BY_ITSELF}
        return _pruned(name.removesuffix("_batches"), tables, arguments), {}
    except (TidegateError, TypeError, ValueError):
        return tables, {}


def _merged(given: Any, how: Reading) -> list[OpenTable]:  # noqa: ANN401 - any files
    """Open the files to merge; if the input is a single path, each file under it is a stream."""
    if not isinstance(given, list | tuple):
        return of_one_type(
            [given] if isinstance(given, OpenTable) else open_files(given, "streams", how)
        )
    names = _names(len(given))
    return of_one_type([open_table(*one, how) for one in zip(given, names, strict=True)])


def _prepared_streams(
    name: str,
    given: Any,  # noqa: ANN401 - any streams
    arguments: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    streams = [given] if is_table(given) else [*given]
    names = _names(len(streams))
    opened = [open_table(one, name) for one, name in zip(streams, names, strict=True)]
    tables = of_one_type(opened)
    if name == "aggregate":
        return (tables,), {}
    try:
        choice = of_aggregation(tables, arguments)
    except (TidegateError, TypeError, ValueError):
        return (tables,), {}
    return ([*choice.inputs],), {"memory_limit": BY_ITSELF} if choice.streams else {}


def _pruned(name: str, tables: tuple[Any, ...], arguments: dict[str, Any]) -> tuple[Any, ...]:
    # A stream of Arrow may be read once only.
    if any(_is_arrow(one) and not isinstance(one, pa.Table) for one in tables):
        return tables
    schemas = [table.schema for table in tables]
    plan = getattr(_tidegate, f"plan_{name}")(*schemas, **arguments)
    how = how_of(name, arguments)
    left, right = tables
    return pruned(left, right, plan, how, looks_back=bool(arguments.get("prevailing")))


def of_join(
    batches: str,
    inputs: tuple[object, object],
    arguments: dict[str, Any],
    *,
    reads_times: bool = True,
) -> Choice:
    """Choose for a join.

    Args:
        batches: The native function that makes batches.
        inputs: The left and the right input, no Arrow data.
        arguments: The other arguments of the function.
        reads_times: Whether times are read where statistics leave their order open.
    """
    tables = tuple(
        open_table(one, name) for one, name in zip(inputs, ("left", "right"), strict=True)
    )
    name = batches.removesuffix("_batches")
    ends = ("lower", "upper")
    arguments = {key: value for key, value in arguments.items() if value is not None or key in ends}
    if why := _whole_algorithm(arguments):
        return Choice(tables, streams=False, why=why)
    plan = getattr(_tidegate, f"plan_{name}")(*(table.schema for table in tables), **arguments)
    left, right = (Given(one, table) for one, table in zip(("left", "right"), tables, strict=True))
    try:
        reach = reach_of(name, plan, left, right, arguments)
    except TidegateError:
        return Choice(tables, streams=False, why="the rows of a pair may be at any times")
    if reach.upper is None or (reach.lower is None and not reach.looks_back):
        return Choice(
            tables, streams=False, why="a row may pair with rows however far away in time"
        )
    return _by_order(tables, ("left", "right"), reach.starts, plan.needed, reads_times=reads_times)


def of_aggregation(
    inputs: Sequence[object], arguments: dict[str, Any], *, reads_times: bool = True
) -> Choice:
    """Choose for an aggregation.

    Args:
        inputs: The streams, no Arrow data.
        arguments: The other arguments of the function.
        reads_times: Whether times are read where statistics leave their order open.
    """
    names = _names(len(inputs))
    opened = [open_table(one, name) for one, name in zip(inputs, names, strict=True)]
    tables = tuple(of_one_type(opened))
    arguments = {key: value for key, value in arguments.items() if value is not None}
    if why := _whole_algorithm(arguments):
        return Choice(tables, streams=False, why=why)
    schemas = [table.schema for table in tables]
    plan = _tidegate.plan_aggregate(schemas, **arguments)
    types = [
        [schema.field(name).type for name in columns]
        for schema, columns in zip(schemas, plan.columns, strict=True)
    ]
    if any(of_one != types[0] for of_one in types):
        return Choice(tables, streams=False, why="the streams have columns of several types")
    on = [arguments["on"]] * len(tables)
    return _by_order(tables, names, on, plan.columns, reads_times=reads_times)


def explained(batches: str, inputs: Sequence[object], arguments: dict[str, Any]) -> str:
    """A line on how the inputs of a call are read; none for Arrow data."""
    if any(_is_arrow(one) for one in inputs):
        return ""
    own = {
        key: value for key, value in arguments.items() if key not in {"memory_limit", "lateness"}
    }
    limit = arguments.get("memory_limit")
    if batches == "aggregate_batches":
        given: Any = inputs[0]
        streams = [given] if is_table(given) else [*given]
        if any(_is_arrow(one) for one in streams):
            return ""
        if limit is not None:
            return _sorted(streams, _names(len(streams)), [own["on"]] * len(streams), arguments)
        choice = of_aggregation(streams, own, reads_times=False)
    else:
        if limit is not None:
            return _sorted(inputs, ("left", "right"), _times(batches, inputs, own), arguments)
        choice = of_join(batches, (inputs[0], inputs[1]), own, reads_times=False)
    return f"\n{choice}"


def _times(batches: str, inputs: Sequence[object], arguments: dict[str, Any]) -> tuple[str, str]:
    """The columns by which the rows of each side are in order."""
    name = batches.removesuffix("_batches")
    left, right = (
        Given(one, open_table(given, one))
        for one, given in zip(("left", "right"), inputs, strict=True)
    )
    schemas = left.table.schema, right.table.schema
    plan = getattr(_tidegate, f"plan_{name}")(*schemas, **arguments)
    return reach_of(name, plan, left, right, arguments).starts


def _sorted(
    inputs: Sequence[object], names: Sequence[str], times: Sequence[str], arguments: dict[str, Any]
) -> str:
    """A line on how the rows of each input get into time order."""
    given = arguments.get("lateness")
    late = given if isinstance(given, tuple) else [given] * len(inputs)
    told = []
    for one, name, on, lateness in zip(inputs, names, times, late, strict=True):
        if lateness is not None:
            told.append(f"{name}: in order but for its lateness")
        elif found := stretches(open_table(one, name), on):
            groups = sum(map(len, found))
            told.append(
                f"{name}: {groups} row groups in {len(found)} stretches of time, each sorted as it "
                "is read"
            )
        else:
            told.append(f"{name}: sorted whole, unless its times ascend")
    return f"\n  inputs     {'; '.join(told)}"


def _names(streams: int) -> list[str]:
    return [f"streams[{at}]" if streams > 1 else "streams" for at in range(streams)]


def _is_arrow(given: object) -> bool:
    names = ("__arrow_c_stream__", "__arrow_c_array__", "__arrow_c_schema__")
    return any(hasattr(given, name) for name in names)


def _whole_algorithm(arguments: dict[str, Any]) -> str:
    algorithm = arguments.get("algorithm", "auto")
    return "" if algorithm == "auto" else f'algorithm="{algorithm}" works on whole tables'


def _by_order(
    tables: Sequence[OpenTable],
    names: Sequence[str],
    times: Sequence[str],
    columns: Sequence[Sequence[str]],
    *,
    reads_times: bool,
) -> Choice:
    given = tuple(tables)
    groups = [row_groups(table) for table in tables]
    size = 0
    for name, found, needed in zip(names, groups, columns, strict=True):
        if found is None:
            why = f"{name} is not made of Parquet files, whose statistics tell the order of rows"
            return Choice(given, streams=False, why=why)
        size += bytes_of(found, needed)
    if size < LARGE:
        why = f"their columns take {size:,} bytes, less than {LARGE:,}"
        return Choice(given, streams=False, why=why)
    for name, table, found, on in zip(names, tables, groups, times, strict=True):
        if why := _out_of_order(name, table, found or [], on, reads_times=reads_times):
            return Choice(given, streams=False, why=why)
    why = "both are" if len(tables) == 2 else "all are" if len(tables) > 1 else "it is"  # noqa: PLR2004
    why += " in time order, by the statistics of the files"
    if not reads_times:
        why += "; the times are read first, to be sure"
    return Choice(
        tuple(replace(table, is_in_order=True) for table in tables), streams=True, why=why
    )


def _out_of_order(
    name: str, table: OpenTable, groups: list[Group], on: str, *, reads_times: bool
) -> str:
    found = spans(groups, on, table.schema.field(on).type)
    if found is None:
        return f"the files of {name} have no statistics of `{on}`, or say that a time is null"
    for (_, last), (first, _) in itertools.pairwise(found):
        if first < last:
            return f"the statistics of {name} say that its rows are not in the order of `{on}`"
    if reads_times and not ascends(checked(table.few([on], STREAM_BATCH_ROWS), name)):
        return f"the rows of {name} are not in the order of `{on}`"
    return ""
