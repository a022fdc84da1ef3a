"""The logger `tidegate`: what is told of sources and operators, each once a while."""

from __future__ import annotations

import logging
import threading
import time

_LOGGER = logging.getLogger("tidegate")
_LOGGER.addHandler(logging.NullHandler())

# Seconds for which nothing more of a kind is told of one source.
_QUIET = 60.0

_LEVELS = {
    "late": logging.WARNING,
    "full": logging.WARNING,
    "silent": logging.WARNING,
    "restored": logging.INFO,
}

# When each was told last, by kind and source.
_TOLD: dict[tuple[str, int], float] = {}
_LOCK = threading.Lock()

# More of them are forgotten: most are of sources that are gone.
_MOST = 10_000


def tell(kind: str, number: int, text: str) -> None:
    """Tell something of a source or an operator, unless that was told within the last minute."""
    level = _LEVELS[kind]
    if not _LOGGER.isEnabledFor(level):
        return
    now = time.monotonic()
    with _LOCK:
        if now - _TOLD.get((kind, number), -_QUIET) < _QUIET:
            return
        if len(_TOLD) >= _MOST:
            _TOLD.clear()
        _TOLD[kind, number] = now
    _LOGGER.log(level, "%s", text, extra={"tidegate_kind": kind})
