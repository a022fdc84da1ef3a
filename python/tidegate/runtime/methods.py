"""The methods of native classes that are written in Python.

Modules that few programs need are imported on first use, so that `import tidegate` stays fast.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

from tidegate import _tidegate
from tidegate.deferred import Deferred
from tidegate.runtime import metrics
from tidegate.runtime.running import Running
from tidegate.types import EpochUnit, Sink

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

Late = Callable[["pa.Table"], object]
Operator = _tidegate.Operator
Readable = _tidegate.Operator | _tidegate.MergeReader


def attach(more: Mapping[type, dict[str, Any]]) -> None:
    """Add the methods to the native classes, and pass the callbacks to the native module.

    Args:
        more: Methods from other parts of the package, by class and name.
    """
    operator: dict[str, Any] = {
        "run": run,
        "running": running,
        "__aiter__": batches,
        "__repr__": metrics.text,
        "_repr_html_": metrics.page,
    }
    methods: dict[type, dict[str, Any]] = {
        _tidegate.Operator: operator,
        _tidegate.MergeReader: {"__aiter__": batches},
        _tidegate.Source: {"push_async": push_async, "push_json": push_json},
        **more,
    }
    for kind, of_kind in methods.items():
        for name, method in of_kind.items():
            _attach(kind, name, method)
    _tidegate._set_callbacks(table_of_rows, tell, waits_for)  # noqa: SLF001 - internal to the package


def _attach(kind: type, name: str, member: FunctionType | property) -> None:
    """Add a copy of a function as a method or property, with its docstring from the manual."""
    is_property = isinstance(member, property)
    function: Any = member.fget if isinstance(member, property) else member
    method = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    method.__kwdefaults__ = function.__kwdefaults__
    method.__annotations__ = function.__annotations__
    method.__module__, method.__qualname__ = kind.__module__, f"{kind.__name__}.{name}"
    method.__doc__ = _tidegate._manual(method.__qualname__) or function.__doc__  # noqa: SLF001 - as above
    setattr(kind, name, property(method) if is_property else method)


def run(
    self: Operator, sink: Sink, *, late: Late | None = None, punctuations: bool = False
) -> None:
    """`Operator.run`."""
    from tidegate.runtime.running import run  # noqa: PLC0415 - see the top

    run(self, _sink(self, sink, punctuations), late)


def running(
    self: Operator, sink: Sink, *, late: Late | None = None, punctuations: bool = False
) -> Running:
    """`Operator.running`."""
    from tidegate.runtime.running import Running  # noqa: PLC0415 - see the top

    return Running(self, _sink(self, sink, punctuations), late)


def _sink(operator: Operator, sink: Sink, punctuations: bool) -> Any:  # noqa: ANN401, FBT001 - the caller's
    if not isinstance(punctuations, bool):
        message = f"punctuations: expected True or False, got {punctuations!r:.80}"
        raise TypeError(message)
    if not punctuations:
        return sink
    from tidegate.runtime.punctuations import Punctuated  # noqa: PLC0415 - see the top

    return Punctuated(operator, sink)


def batches(self: Readable) -> AsyncIterator[pa.RecordBatch]:
    """Yield batches without blocking the event loop."""
    from tidegate.runtime.awaiting import batches  # noqa: PLC0415 - see the top

    return batches(self)


def push_async(
    self: _tidegate.Source,
    data: Any,  # noqa: ANN401 - any rows
    *,
    extra: Literal["error", "ignore"] = "error",
    unit: EpochUnit | None = None,
) -> Awaitable[None]:
    """`Source.push_async`."""
    from tidegate.runtime.awaiting import push  # noqa: PLC0415 - see the top

    return push(self, data, extra, unit)


def push_json(
    self: _tidegate.Source,
    text: bytes | bytearray | memoryview | str,
    *,
    extra: Literal["error", "ignore"] = "error",
    unit: EpochUnit | None = None,
    block: bool | None = None,
) -> None:
    """`Source.push_json`."""
    from tidegate.runtime.json_objects import rows_of  # noqa: PLC0415 - see the top

    self.push(rows_of(text), extra=extra, unit=unit, block=block)


def table_of_rows(
    rows: Sequence[Any] | Mapping[str, Any],
    schema: pa.Schema,
    name: str,
    *,
    ignores_extra: bool,
    unit: str | None = None,
) -> pa.Table:
    """Convert dicts, tuples or a dict of lists to a table."""
    from tidegate.runtime.rows import table  # noqa: PLC0415 - see the top

    return table(rows, schema, name, ignores_extra=ignores_extra, unit=unit)


def tell(kind: str, number: int, text: str) -> None:
    """Log an event that concerns a source or an operator."""
    from tidegate.runtime.logger import tell  # noqa: PLC0415 - see the top

    tell(kind, number, text)


def waits_for(thread: int, other: int) -> bool:
    """Return whether a thread is waiting for another thread."""
    from tidegate.runtime.waits import waits_for  # noqa: PLC0415 - see the top

    return waits_for(thread, other)
