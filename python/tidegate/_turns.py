"""Steps of several threads, and a caller that has all of them rest meanwhile."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate._tidegate import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Turns:
    """Threads go step by step, side by side, and rest between two steps for a caller."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stepping: set[int] = set()
        self._alone: int | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of this thread, which begins once nobody is alone."""
        thread = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._alone is None)
            self._stepping.add(thread)
        try:
            yield
        finally:
            with self._changed:
                self._stepping.discard(thread)
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the steps of all other threads from going on.

        A thread may be in a step of its own: a sink that asks for a snapshot is.
        """
        thread = threading.get_ident()
        with self._changed:
            if thread in self._stepping and self._alone is not None:
                # Each would wait for the other one.
                message = (
                    "another thread takes a snapshot, and waits for this sink; take snapshots on "
                    "one thread"
                )
                raise StateError(message)
            self._changed.wait_for(lambda: self._alone is None)
            self._alone = thread
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._stepping <= {thread})
            yield
        finally:
            with self._changed:
                self._alone = None
                self._changed.notify_all()
