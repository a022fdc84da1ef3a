"""Tables that have been prepared once as the right side of many joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from tidegate.types import Table


class Index(_tidegate.Index):  # noqa: D101 - the native class has the docstring
    __doc__ = _tidegate.Index.__doc__
    __slots__ = ()

    def __new__(  # noqa: D102 - as above
        cls,
        table: Table,
        *,
        on: str,
        by: str | Sequence[str] | None = None,
        threads: int | None = None,
    ) -> Self:
        keys = [by] if isinstance(by, str) else by
        return super().__new__(cls, _arrow("table", table), on=on, by=keys, threads=threads)

    def append(self, rows: Table) -> None:  # noqa: D102 - as above
        super().append(_arrow("rows", rows))

    append.__doc__ = _tidegate.Index.append.__doc__


Index.__module__ = "tidegate"


def _arrow(name: str, table: Any) -> Any:  # noqa: ANN401 - any input
    if _tidegate.is_arrow(table):
        return table
    # Imported late, because it imports pyarrow.
    from tidegate.calls import inputs  # noqa: PLC0415

    opened = inputs.opened(name, table)
    return inputs.rows_of(name, opened, opened.schema.names)


def with_names_of(index: _tidegate.Index, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a join whose right side is an index.

    The index determines the names of the right columns, so the arguments only need those of the
    left side.

    Raises:
        SchemaError: The arguments name right columns other than those of the index.
    """
    given = dict(arguments)
    if isinstance(given.get("on"), str):
        given["on"] = (given["on"], index.on)
    by = given.get("by")
    names = [by] if isinstance(by, str) else by
    if isinstance(names, list | tuple) and len(names) == len(index.by):
        pairs = zip(names, index.by, strict=True)
        given["by"] = [pair if isinstance(pair[0], str) else pair[0] for pair in pairs]
    return given
