"""Aggregates streams, including all steps from a call's arguments to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.bounded.limits import Limits
from tidegate.calls import computed
from tidegate.calls.distinct import check_streams
from tidegate.calls.listed_windows import windows_table
from tidegate.calls.merges import are_arrow, with_times
from tidegate.calls.progress import reporting

if TYPE_CHECKING:
    import pyarrow as pa


def table(arguments: dict[str, Any]) -> pa.Table:
    """Aggregate streams; `arguments` maps names to the arguments of the call."""
    reports = reporting(arguments.pop("progress"), "aggregate")
    streams, query, limits = _taken(arguments, in_batches=False)
    if reports is not None:
        # Imported late, because it imports pyarrow.
        from tidegate.calls import ways  # noqa: PLC0415

        memory = None if limits is None else limits.memory
        return reports.table(ways.aggregated_batches(query, streams, limits), memory)
    if limits is None and are_arrow(streams):
        check_streams(streams)
        return query.table(streams)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    return ways.aggregated_table(query, streams, limits)


def batches(arguments: dict[str, Any]) -> _tidegate.BatchReader[dict[str, int]]:
    """Aggregate streams, batch by batch."""
    reports = reporting(arguments.pop("progress"), "aggregate")
    streams, query, limits = _taken(arguments, in_batches=True)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    reader = ways.aggregated_batches(query, streams, limits)
    return reader if reports is None else reports.batches(reader)


def _taken(
    arguments: dict[str, Any], *, in_batches: bool
) -> tuple[Any, _tidegate.AggregationQuery, Limits | None]:
    streams = arguments.pop("streams")
    arguments["windows"] = windows_table(arguments["windows"])
    memory_limit, lateness = arguments.pop("memory_limit"), arguments.pop("lateness")
    limits = Limits.of(memory_limit, lateness, in_batches=in_batches)
    streams, _ = computed.with_streams(streams, arguments, memory_limit)
    streams = with_times(streams, arguments["on"], arguments.pop("unit"), memory_limit)
    return streams, _tidegate.AggregationQuery(**arguments), limits
