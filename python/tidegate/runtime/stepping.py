"""Threads that run in steps, pause when a caller needs exclusive access, and stop on request."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate._tidegate import ClosedError, StateError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The interval at which a waiting thread checks for a stop request, in seconds.
_PATIENCE = 0.1


class Stop:
    """A request to stop.

    A signal handler can request a stop at any moment. A `threading.Event` is unsuitable, because
    the interrupted thread may hold the event's lock.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Request the stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether a stop was requested."""
        return self._is_set


class Turns:
    """Lets threads run steps concurrently, except while a caller has exclusive access."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stepping: set[int] = set()
        self._alone: int | None = None
        self._process = os.getpid()

    @contextmanager
    def step(self, stopped: Stop) -> Iterator[bool]:
        """Begin a step once no caller has exclusive access. Yield False if told to stop first.

        A stop request ends the wait, because the caller may be waiting for a thread that is joining
        this one.
        """
        thread = threading.get_ident()
        try:
            with self._changed:
                while self._alone is not None and not stopped.is_set():
                    self._changed.wait(_PATIENCE)
                goes_on = self._alone is None
                if goes_on:
                    self._stepping.add(thread)
            yield goes_on
        finally:
            with self._changed:
                self._stepping.discard(thread)
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until other threads finish their steps, and prevent new steps until the block ends.

        The calling thread can itself be in a step, for example when a sink takes a snapshot.
        """
        if self._process != os.getpid():
            # The stepping threads do not exist in this process, so a wait for them would not end.
            message = (
                "this chain was created before the process forked; create one in the child process"
            )
            raise ClosedError(message)
        thread = threading.get_ident()
        is_within = False
        try:
            with self._changed:
                is_within = self._alone == thread
                self._check(thread)
                self._changed.wait_for(lambda: self._alone is None)
                self._alone = thread
                self._changed.wait_for(lambda: self._stepping <= {thread})
            yield
        finally:
            with self._changed:
                if self._alone == thread and not is_within:
                    self._alone = None
                    self._changed.notify_all()

    def _check(self, thread: int) -> None:
        """Raise an error instead of waiting forever."""
        if self._alone == thread:
            message = (
                "a signal handler called the chain during another call to it; "
                "set a flag in the handler, and check the flag between calls"
            )
            raise StateError(message)
        if thread in self._stepping and self._alone is not None:
            message = (
                "another thread is taking a snapshot and is waiting for this sink; "
                "take snapshots on a single thread"
            )
            raise StateError(message)
