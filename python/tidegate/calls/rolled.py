"""Aggregates rolling windows, including all steps from a call's arguments to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.bounded.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.types import JoinStats


def table(arguments: dict[str, Any]) -> pa.Table:
    """Aggregate the windows of a table; `arguments` maps names to the arguments of the call."""
    given, query, limits = _taken(arguments, in_batches=False)
    if limits is None and _tidegate.is_arrow(given):
        return query.table([given])
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    return ways.aggregated_table(query, [given], limits)


def batches(arguments: dict[str, Any]) -> _tidegate.BatchReader[JoinStats]:
    """Aggregate the windows of a table, batch by batch."""
    given, query, limits = _taken(arguments, in_batches=True)
    if limits is None and _tidegate.is_arrow(given):
        return query.batches([given])
    # Imported late, because it imports pyarrow.
    from tidegate.calls import ways  # noqa: PLC0415

    return ways.aggregated_batches(query, [given], limits)


def _taken(
    arguments: dict[str, Any], *, in_batches: bool
) -> tuple[Any, _tidegate.RollingQuery, Limits | None]:
    given = arguments.pop("table")
    memory_limit, lateness = arguments.pop("memory_limit"), arguments.pop("lateness")
    limits = Limits.of(memory_limit, lateness, in_batches=in_batches)
    return given, _tidegate.RollingQuery(**arguments), limits
