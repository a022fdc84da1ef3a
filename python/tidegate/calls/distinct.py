"""Rejects streams that are passed to a call twice, because a stream can be read only once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate._tidegate import ClosedError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_sides(left: object, right: object) -> None:
    """Reject a stream that is passed for both sides of a join."""
    if left is right and _is_stream(left):
        message = "left and right are the same stream, which can be read only once; "
        message += "read it into a table first"
        raise ClosedError(message)


def check_streams(streams: Any, names: Sequence[str] | None = None) -> None:  # noqa: ANN401 - any streams
    """Reject a stream that appears twice in a list. `names` contains the name of each stream."""
    if not isinstance(streams, list | tuple):
        return
    seen: dict[int, int] = {}
    for number, stream in enumerate(streams):
        first = seen.setdefault(id(stream), number)
        if first != number and _is_stream(stream):
            one, other = f"streams[{first}]", f"streams[{number}]"
            if names is not None:
                one, other = names[first], names[number]
            message = f"{one} and {other} are the same stream, "
            message += "which can be read only once; read it into a table first"
            raise ClosedError(message)


def _is_stream(given: object) -> bool:
    return hasattr(given, "__next__") or hasattr(given, "read_next_batch")
