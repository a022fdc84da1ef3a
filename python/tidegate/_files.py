"""Calls on files: how they are read is decided before the native function is called."""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def of_files(function: Function) -> Function:
    """The same function, whose inputs may be files that are not read whole.

    The room `tidegate.bounded` decides which row groups are read, and whether rows are taken slice
    by slice.
    """
    name = function.__name__
    names = ("streams",) if name.startswith(("aggregate", "merge")) else ("left", "right")

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as for the function
        inputs = [*given, *(named[one] for one in names[len(given) :] if one in named)]
        if len(inputs) != len(names) or not any(map(_are_files, inputs)):
            return function(*given, **named)
        # Here, since it imports pyarrow.
        from tidegate.bounded.choosing import prepared  # noqa: PLC0415

        rest = {key: value for key, value in named.items() if key not in names}
        inputs, more = _elsewhere(lambda: prepared(name, tuple(inputs), rest))
        return function(*inputs, **{**rest, **more})

    return call  # type: ignore[return-value]


def _are_files(given: object) -> bool:
    if isinstance(given, list | tuple):
        return bool(given) and all(map(_are_files, given))
    return isinstance(given, str | os.PathLike) or hasattr(given, "pieces")


def _elsewhere(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - of any work
    """Run work on another thread, such that Ctrl-C ends the wait for it."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised by who waits
            done.set_exception(error)

    threading.Thread(target=run, name="tidegate-files", daemon=True).start()
    return done.result()
