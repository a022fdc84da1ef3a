"""Aggregates rolling windows, from a call's arguments to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.bounded.limits import Limits
from tidegate.calls import computed
from tidegate.calls.merges import with_times
from tidegate.calls.progress import reporting

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.types import JoinStats


def table(arguments: dict[str, Any]) -> pa.Table:
    """Aggregate the windows of a table; `arguments` maps names to the arguments of the call."""
    reports = reporting(arguments.pop("progress"), "rolling")
    given, query, limits = _taken(arguments, in_batches=False)
    if reports is None and limits is None and _tidegate.is_arrow(given[0]):
        return query.table(given)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    if reports is not None:
        memory = None if limits is None else limits.memory
        return reports.table(ways.aggregated_batches(query, given, limits), memory)
    return ways.aggregated_table(query, given, limits)


def batches(arguments: dict[str, Any]) -> _tidegate.BatchReader[JoinStats]:
    """Aggregate the windows of a table, batch by batch."""
    reports = reporting(arguments.pop("progress"), "rolling")
    given, query, limits = _taken(arguments, in_batches=True)
    if reports is None and limits is None and _tidegate.is_arrow(given[0]):
        return query.batches(given)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    reader = ways.aggregated_batches(query, given, limits)
    return reader if reports is None else reports.batches(reader)


def _taken(
    arguments: dict[str, Any], *, in_batches: bool
) -> tuple[Any, _tidegate.RollingQuery, Limits | None]:
    """Return the table in a list, the query and the limits."""
    given = [arguments.pop("table")]
    memory_limit, lateness = arguments.pop("memory_limit"), arguments.pop("lateness")
    limits = Limits.of(memory_limit, lateness, in_batches=in_batches)
    given, more = computed.with_streams(given, arguments, memory_limit, "table")
    given = with_times(given, arguments["on"], arguments.pop("unit"), memory_limit)
    query = _tidegate.RollingQuery(**arguments)
    return given, computed.without(query, arguments, (given,), more), limits
