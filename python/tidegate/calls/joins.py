"""Joins two inputs, including all steps from a call's arguments to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.bounded.limits import Limits
from tidegate.calls import computed
from tidegate.calls.distinct import check_sides
from tidegate.calls.index import with_names_of
from tidegate.calls.merges import UNIT_OF_WHOLE
from tidegate.calls.progress import reporting

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from tidegate.types import JoinStats

    Making = Callable[..., _tidegate.JoinQuery]


def table(making: Making, arguments: dict[str, Any]) -> pa.Table:
    """Join two inputs.

    Args:
        making: The native function that builds queries for this join.
        arguments: The arguments of the call by name.
    """
    progress = arguments.pop("progress")
    query, left, right, limits = _taken(making, arguments, in_batches=False)
    reports = None if progress is False else reporting(progress, query.function)
    if reports is not None:
        memory = None if limits is None else limits.memory
        return reports.table(_batches(query, left, right, limits), memory)
    if limits is None and _tidegate.is_arrow(left) and _tidegate.is_arrow(right):
        return query.table(left, right)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    return ways.joined_table(query, left, right, limits)


def batches(making: Making, arguments: dict[str, Any]) -> _tidegate.BatchReader[JoinStats]:
    """Join two inputs, batch by batch; see `table` for the arguments."""
    progress = arguments.pop("progress")
    query, left, right, limits = _taken(making, arguments, in_batches=True)
    reports = None if progress is False else reporting(progress, query.function)
    reader = _batches(query, left, right, limits)
    return reader if reports is None else reports.batches(reader)


def _batches(
    query: _tidegate.JoinQuery,
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    limits: Limits | None,
) -> _tidegate.BatchReader[JoinStats]:
    if limits is None and _tidegate.is_arrow(left) and _tidegate.is_arrow(right):
        return query.batches(left, right)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    return ways.joined_batches(query, left, right, limits)


def _taken(
    making: Making, arguments: dict[str, Any], *, in_batches: bool
) -> tuple[_tidegate.JoinQuery, Any, Any, Limits | None]:
    """Return the query, and the inputs and limits, which are removed from the arguments."""
    if isinstance(arguments["right"], _tidegate.Index):
        arguments.update(with_names_of(making, arguments["right"], arguments))
    memory_limit, lateness = arguments.pop("memory_limit"), arguments.pop("lateness")
    left, right = arguments.pop("left"), arguments.pop("right")
    has_index = any(isinstance(one, _tidegate.Index) for one in (left, right))
    if has_index and memory_limit is not None:
        message = "memory_limit: an index's rows are already in memory; omit the limit, "
        message += "or give the table or the files themselves"
        raise _tidegate.TidegateError(message)
    check_sides(left, right)
    query, left, right = planned(making, arguments, left, right, memory_limit)
    return query, left, right, Limits.of(memory_limit, lateness, in_batches=in_batches)


def planned(
    making: Making,
    arguments: dict[str, Any],
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    memory_limit: object,
) -> tuple[_tidegate.JoinQuery, Any, Any]:
    """Return the query, and the inputs with the columns and times that the query reads."""
    left, right, more = computed.with_sides(making, arguments, left, right, memory_limit)
    left, right = with_times(making, arguments, left, right, memory_limit)
    query = making(**arguments)
    return computed.without(query, arguments, (left, right), more), left, right


def with_times(
    making: Making,
    arguments: dict[str, Any],
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    memory_limit: object,
) -> tuple[Any, Any]:
    """Remove `unit` from the arguments, and return the inputs with timestamps if it is given."""
    unit = arguments.pop("unit")
    if unit is None:
        return left, right
    if memory_limit is not None:
        raise _tidegate.TidegateError(UNIT_OF_WHOLE)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import epochs  # noqa: PLC0415

    columns = dict(zip(("left", "right"), times_of(making, arguments), strict=True))
    one, other = epochs.converted({"left": left, "right": right}, columns, unit)
    return one, other


def times_of(making: Making, arguments: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the time columns on each side. Expressions are left out."""
    on = arguments["time"] if making is _tidegate.band_join_query else arguments["on"]
    if on is None:
        message = "unit: a band join without time has no times; leave it out"
        raise _tidegate.TidegateError(message)
    pair = on if isinstance(on, tuple) else (on, on)
    if making is _tidegate.overlap_join_query:
        sides = pair if isinstance(pair[0], tuple) else (pair, pair)
    else:
        sides = ((pair[0],), (pair[1],))
    left, right = ([one for one in side if isinstance(one, str)] for side in sides)
    return left, right
