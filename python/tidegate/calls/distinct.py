"""Rejects streams that are passed to a call twice, because a stream can be read only once."""

from __future__ import annotations

from typing import Any

from tidegate._tidegate import ClosedError


def check_sides(left: object, right: object) -> None:
    """Reject a stream that is passed for both sides of a join."""
    if left is right and _is_stream(left):
        message = "left and right are the same stream, which can be read only once; "
        message += "read it into a table first"
        raise ClosedError(message)


def check_streams(streams: Any) -> None:  # noqa: ANN401 - any streams
    """Reject a stream that appears twice in a list."""
    if not isinstance(streams, list | tuple):
        return
    seen: dict[int, int] = {}
    for number, stream in enumerate(streams):
        first = seen.setdefault(id(stream), number)
        if first != number and _is_stream(stream):
            message = f"streams[{first}] and streams[{number}] are the same stream, "
            message += "which can be read only once; read it into a table first"
            raise ClosedError(message)


def _is_stream(given: object) -> bool:
    return hasattr(given, "__next__") or hasattr(given, "read_next_batch")
