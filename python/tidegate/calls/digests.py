"""Computes digests of all kinds of inputs."""

from __future__ import annotations

from typing import Any

from tidegate import _tidegate


def digest(data: Any, *, ordered: bool, threads: int | None) -> str:  # noqa: ANN401 - any input
    """Read an input batch by batch, and return its digest."""
    return _tidegate.digest(arrow(data), ordered=ordered, threads=threads)


def update(self: _tidegate.Digest, data: Any, *, threads: int | None = None) -> None:  # noqa: ANN401 - any input
    """Add rows to a digest. This function becomes the `Digest.update` method."""
    self._update(arrow(data), threads)


def arrow(data: Any) -> Any:  # noqa: ANN401 - any input
    """Return the input as Arrow data."""
    if _tidegate.is_arrow(data):
        return data
    # Imported late, because it imports pyarrow.
    from tidegate.calls import inputs  # noqa: PLC0415

    return inputs.opened("data", data, inputs.STREAMED).batches()
