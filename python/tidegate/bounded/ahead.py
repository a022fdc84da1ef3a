"""Batches that a thread makes while earlier ones are worked on."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Batch = TypeVar("Batch")

END = object()
"""Comes after the last batch."""


def ahead(batches: Iterator[Batch], most: int) -> Generator[Batch, None, None]:
    """The same batches, made by a thread of their own. At most `most` of them wait.

    The end waits for the batch that is in work. So this is for files, which are read in a while,
    and not for what may never come.

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
