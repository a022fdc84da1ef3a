"""Tables that are prepared once and then used as the right side of many joins.

Examples use `tg` for `tidegate`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"]})
    >>> quotes = pa.table({"ts": [8, 19, 29, 31], "sym": ["A", "A", "A", "B"], "bid": [8, 9, 7, 6]})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tidegate import _tidegate
from tidegate._tidegate import StateError
from tidegate.calls.arguments import told, told_new
from tidegate.deferred import Deferred
from tidegate.expressions import Expr
from tidegate.types import Bound, Table

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")


class Index(_tidegate.Index):  # noqa: D101 - the native class has the docstring
    __doc__ = _tidegate.Index.__doc__
    __slots__ = ("_opened",)

    _opened: tuple[int, int] | None
    """The size and the modification time, in nanoseconds, of the file that `open_index` has opened;
    None for an index that was built in memory."""

    @told_new
    def __new__(  # noqa: D102, PLR0913 - as above; the arguments of the class
        cls,
        table: Table,
        *,
        on: str | tuple[str, str],
        by: str | Sequence[str] | None = None,
        keep: Bound = None,
        open_ends: bool = False,
        threads: int | None = None,
    ) -> Self:
        keys = [by] if isinstance(by, str) else by
        rows = _arrow("table", table)
        options: dict[str, Any] = {"keep": keep, "open_ends": open_ends, "threads": threads}
        made = super().__new__(cls, rows, on=on, by=keys, **options)
        made._opened = None
        return made

    def append(self, table: Table) -> None:  # noqa: D102 - as above
        super().append(_arrow("table", table))

    append.__doc__ = _tidegate.Index.append.__doc__

    @told
    def expire(  # noqa: D102 - as above
        self, *, before: int | datetime | date | np.datetime64
    ) -> None:
        super().expire(before=before)

    expire.__doc__ = _tidegate.Index.expire.__doc__

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            message = (
                "an index in memory cannot be pickled; save it, open the file with open_index "
            )
            message += "and pickle the opened index"
            raise TypeError(message)
        return (open_index, (self.path,))


Index.__module__ = "tidegate"


def save(self: _tidegate.Index, path: str | os.PathLike[str]) -> None:
    """`Index.save`."""
    # Imported late, because it imports pyarrow.
    from tidegate.io.files import naming, replaced_whole  # noqa: PLC0415

    with naming(os.fspath(path), "cannot be written"), replaced_whole(Path(path)) as file:
        self._write(file.name)


def time_range(self: _tidegate.Index) -> tuple[pa.Scalar[Any], pa.Scalar[Any]] | None:
    """`Index.time_range`."""
    # Imported late, so that importing the package does not import pyarrow.
    import pyarrow as pa  # noqa: PLC0415

    if self._span is None:
        return None
    kind = self.schema.field(self.on if isinstance(self.on, str) else self.on[0]).type
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()  # noqa: PLR2004 - bits
    first, last = (pa.scalar(time, storage).cast(kind) for time in self._span)
    return first, last


def of_merge(
    self: _tidegate.Merge,
    *,
    by: str | Sequence[str] | None = None,
    keep: Bound = None,
    threads: int | None = None,
) -> Index:
    """`Merge.index`."""
    return Index(self.schema.empty_table(), on=self.on, by=by, keep=keep, threads=threads)


@told
def open_index(
    path: str | os.PathLike[str], *, verify: bool = False, threads: int | None = None
) -> Index:
    """Open an index that was written by `Index.save`.

    The file is mapped into memory: its rows are read from disk only when a join needs them, and
    processes that open the same file share its memory. Opening takes a few milliseconds, plus the
    time to check text and other values of variable length.

    The file must not be modified or truncated while it is open. It can be replaced by another
    `Index.save`, which leaves opened indexes unchanged. New versions of tidegate open the files of
    earlier ones.

    Example:
        >>> tg.Index(quotes, on="ts", by="sym").save("quotes.index")
        >>> saved = tg.open_index("quotes.index")
        >>> tg.asof_join(trades, saved, on="ts", by="sym", columns=["ts", "bid"]).to_pydict()
        {'ts': [10, 20, 30], 'bid': [8, None, 7]}

    Args:
        path: The file.
        verify: True verifies the checksums of all bytes, so the whole file is read. By default, the
            description and the keys are checked when the file is opened, and the order of the rows
            is checked before the first join.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.

    Raises:
        StateError: The file does not contain an index, is damaged, or was written by a later
            version.
    """
    if not isinstance(verify, bool):
        message = f"verify: expected True or False, got {verify!r:.80}"
        raise TypeError(message)
    place = Path(path).absolute()
    if place.is_dir():
        message = f"{os.fspath(path)!r} is a folder, expected a file written by Index.save"
        raise StateError(message)
    number = _tidegate.default_threads() if threads is None else threads
    found = _state_of(place)
    saved: Any = _tidegate.SavedIndex(place, verify, number)
    # If the file is replaced at the same time, either of the two files may have been opened.
    while found != (after := _state_of(place)):
        found = after
        saved = _tidegate.SavedIndex(place, verify, number)
    index = Index(saved, on=saved.on, threads=threads)
    index._opened = found  # noqa: SLF001 - the same module
    return index


def _state_of(place: Path) -> tuple[int, int] | None:
    """Return a file's size and modification time, or None if it cannot be read."""
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _arrow(name: str, table: Any) -> Any:  # noqa: ANN401 - any input
    if _tidegate.is_arrow(table) or isinstance(table, _tidegate.SavedIndex):
        return table
    # Imported late, because it imports pyarrow.
    from tidegate.calls import inputs  # noqa: PLC0415

    opened = inputs.opened(name, table)
    return inputs.rows_of(name, opened, opened.schema.names)


def with_names_of(
    making: object, index: _tidegate.Index, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a join whose right side is an index.

    The index determines the names of the right columns, so the arguments only need those of the
    left side. If the index is on other columns, the join rejects it.

    Args:
        making: The native function that builds queries for this join.
        index: The right side.
        arguments: The arguments of the call by name.
    """
    given = dict(arguments)
    on, own = given.get("on"), index.on
    first, last = (own, own) if isinstance(own, str) else own
    if making is _tidegate.overlap_join_query:
        if isinstance(on, tuple) and all(isinstance(name, str) for name in on):
            given["on"] = (on, (first, last))
    elif making is _tidegate.band_join_query:
        # `on` names the columns whose values are compared.
        if isinstance(given.get("time"), str):
            given["time"] = (given["time"], first)
    elif isinstance(on, str | Expr):
        given["on"] = (on, first)
    by = given.get("by")
    names = [by] if isinstance(by, str | Expr) else by
    if isinstance(names, list | tuple) and len(names) == len(index.by):
        pairs = zip(names, index.by, strict=True)
        given["by"] = [pair if isinstance(pair[0], str | Expr) else pair[0] for pair in pairs]
    return given


METHODS: dict[type, dict[str, Any]] = {
    _tidegate.Index: {"save": save, "time_range": property(time_range)},
    _tidegate.Merge: {"index": of_merge},
}
"""The methods of native classes that are written in this module."""
