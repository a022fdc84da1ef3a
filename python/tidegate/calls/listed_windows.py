"""Tables of windows that the caller lists, each with a start and an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate

if TYPE_CHECKING:
    import pyarrow as pa


def windows_table(windows: Any) -> pa.Table | None:  # noqa: ANN401 - any input
    """Return the argument `windows` as a pyarrow table, because it may be read several times."""
    if windows is None:
        return None
    # Imported late, because these import pyarrow.
    import pyarrow as pa  # noqa: PLC0415

    from tidegate.calls.inputs import elsewhere, opened  # noqa: PLC0415

    if isinstance(windows, pa.Table):
        return windows
    if _tidegate.is_arrow(windows):
        return pa.table(windows)
    table = opened("windows", windows)
    rows = elsewhere(lambda: table.read(table.schema.names))
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    return pa.Table.from_batches(rows, table.schema)
