"""Produces batches on a separate thread while earlier batches are being processed."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Batch = TypeVar("Batch")

END = object()
"""Marks the end of the batches."""


def ahead(batches: Iterator[Batch], most: int) -> Generator[Batch, None, None]:
    """Yield batches that a separate thread produces, up to `most` batches in advance.

    When the generator is closed, it waits for the batch that is being produced. Use this function
    for files, because reading them takes a bounded amount of time, but not for sources that may
    block forever.

    Example:
        >>> [*ahead(iter("abc"), 2)]
        ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1, thread_name_prefix="tidegate-read") as thread:
        waiting = deque(thread.submit(next, batches, END) for _ in range(most))
        try:
            while (batch := waiting.popleft().result()) is not END:
                waiting.append(thread.submit(next, batches, END))
                yield batch  # type: ignore[misc]
        finally:
            for one in waiting:
                one.cancel()
