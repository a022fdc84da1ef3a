"""What the methods of Polars and pandas frames share: names, signatures and docstrings.

Each method calls the function of the same name, with the frame as the left input, and returns a
frame of the same library. Type checkers see the parameters of the function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

Parameters = ParamSpec("Parameters")
FrameT = TypeVar("FrameT")
FrameT_co = TypeVar("FrameT_co", covariant=True)

__all__ = ["Accessor", "Method"]


class Accessor(Protocol[FrameT_co]):
    """The namespace `tidegate` of a frame."""

    def _called(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> FrameT_co:
        """Call a function with the frame as its first input, and return the result as a frame."""


class Method(Generic[Parameters, FrameT]):
    """A method that has the parameters of a function, except for the first.

    Args:
        function: The function to call. The frame is its first argument.
    """

    def __init__(self, function: Callable[Concatenate[Any, Parameters], Any]) -> None:
        self._function = function
        signature = inspect.signature(function)
        first, *others = signature.parameters.values()
        # The result is a frame of the accessor's library.
        of_frame = signature.empty
        self._signature = signature.replace(parameters=others, return_annotation=of_frame)
        # For `typing.get_type_hints`.
        self.__wrapped__ = function
        hints = inspect.get_annotations(function)
        self.__annotations__ = {
            name: hint for name, hint in hints.items() if name not in {first.name, "return"}
        }
        self.__doc__ = f"Call `tidegate.{function.__name__}` with this frame as its first input."

    @overload
    def __get__(self, accessor: None, owner: type) -> Method[Parameters, FrameT]: ...

    @overload
    def __get__(
        self, accessor: Accessor[FrameT], owner: type | None = None
    ) -> Callable[Parameters, FrameT]: ...

    def __get__(
        self, accessor: Accessor[FrameT] | None, owner: type | None = None
    ) -> Method[Parameters, FrameT] | Callable[Parameters, FrameT]:
        if accessor is None:
            return self
        function = self._function

        @functools.wraps(function)
        def call(*given: Parameters.args, **named: Parameters.kwargs) -> FrameT:
            return accessor._called(function, given, named)  # noqa: SLF001 - of this protocol

        call.__signature__ = self._signature  # type: ignore[attr-defined]
        call.__annotations__ = dict(self.__annotations__)
        return call
