"""Determines which Python threads wait for each other, to detect waits that would never end."""

import concurrent.futures
import concurrent.futures.thread
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import _base
from types import FrameType


def waits_for(thread: int, other: int) -> bool:
    """Return whether a thread is waiting for another one, directly or indirectly.

    A thread can wait indirectly, through other threads and futures.

    Only waits that are visible in Python are detected: `Thread.join`, including the `join` at the
    end of an executor's block, and `Future.result`. Threads are identified by
    `threading.get_ident()`.
    """
    frames = sys._current_frames()  # noqa: SLF001 - there is no other way to inspect them
    try:
        seen: set[int] = set()
        found = [thread]
        while found:
            one = found.pop()
            if one == other:
                return True
            if one not in seen and one in frames:
                seen.add(one)
                found += _awaited(frames, frames[one])
        return False
    finally:
        # The frames include the current one. This cycle would keep all objects in the frames alive.
        frames.clear()


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _awaited(frames: dict[int, FrameType], waiting: FrameType) -> Iterator[int]:
    """Yield the threads that the thread with this stack is waiting for."""
    for frame in _stack(waiting):
        code = frame.f_code
        if code.co_filename == threading.__file__ and code.co_name == "join":
            awaited = frame.f_locals.get("self")
            if isinstance(awaited, threading.Thread) and awaited.ident is not None:
                yield awaited.ident
        elif code.co_filename == _base.__file__ and code.co_name in {"result", "exception"}:
            future = frame.f_locals.get("self")
            if isinstance(future, concurrent.futures.Future):
                yield from (thread for thread in frames if _works_on(frames[thread], future))


def _works_on(stack: FrameType, future: object) -> bool:
    """Return whether a stack belongs to a thread-pool thread that is running this future."""
    pool = concurrent.futures.thread.__file__
    return any(
        frame.f_code.co_filename == pool
        and frame.f_code.co_name == "run"
        and getattr(frame.f_locals.get("self"), "future", None) is future
        for frame in _stack(stack)
    )
