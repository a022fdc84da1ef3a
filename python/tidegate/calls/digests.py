"""Digests of any input."""

from __future__ import annotations

from typing import Any

from tidegate import _tidegate


def digest(data: Any, *, ordered: bool, threads: int | None) -> str:  # noqa: ANN401 - any input
    """Return the digest of an input, which is read batch by batch."""
    return _tidegate.digest(arrow(data), ordered=ordered, threads=threads)


def update(self: _tidegate.Digest, data: Any, *, threads: int | None = None) -> None:  # noqa: ANN401 - any input
    """`Digest.update`."""
    self._update(arrow(data), threads)


def arrow(data: Any) -> Any:  # noqa: ANN401 - any input
    """The input as Arrow data."""
    if _tidegate.is_arrow(data):
        return data
    # Here, since it imports pyarrow.
    from tidegate.calls import inputs  # noqa: PLC0415

    return inputs.opened("data", data, inputs.STREAMED).batches()
