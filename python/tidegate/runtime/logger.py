"""The logger `tidegate`, which reports events from sources and operators at a limited rate."""

from __future__ import annotations

import logging
import time

_LOGGER = logging.getLogger("tidegate")
_LOGGER.addHandler(logging.NullHandler())

# The minimum time between two messages of one kind about the same source, in seconds.
_QUIET = 60.0

_LEVELS = {
    "late": logging.WARNING,
    "full": logging.WARNING,
    "silent": logging.WARNING,
    "restored": logging.INFO,
}

# The time of the last message, by kind and source. Each operation on the dict is atomic, so no lock
# is needed. A lock could deadlock if a signal handler pushes rows or if the process forks.
_TOLD: dict[tuple[str, int], float] = {}

# The number of entries at which all of them are dropped. Most belong to sources that no longer
# exist.
_MOST = 10_000


def tell(kind: str, number: int, text: str) -> None:
    """Log an event of a source or an operator, unless it was logged in the last minute."""
    level = _LEVELS[kind]
    if not _LOGGER.isEnabledFor(level):
        return
    if _is_news((kind, number), time.monotonic()):
        _LOGGER.log(level, "%s", text, extra={"tidegate_kind": kind})


def _is_news(key: tuple[str, int], now: float) -> bool:
    """Return whether to log an event: at most one caller per minute may log the same key."""
    last = _TOLD.get(key)
    if last is not None:
        if now - last < _QUIET:
            return False
        found = _TOLD.pop(key, None)
        if found != last:
            # Another caller won the race; keep the time that it recorded.
            if found is not None:
                _TOLD.setdefault(key, found)
            return False
    if len(_TOLD) >= _MOST:
        _TOLD.clear()
    return _TOLD.setdefault(key, now) is now
