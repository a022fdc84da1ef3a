"""Windows of time as intervals: for how long the rows of a side stay is how far later ones reach.

A right row comes at most so much after a left row as that one stays, and the reverse.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np

import tidegate

if TYPE_CHECKING:
    from tidegate.types import Bound, Window


def bounds(window: Window | tuple[Window, Window]) -> tuple[Bound, Bound]:
    """The `lower` and `upper` bounds of the interval join that a window join is."""
    sides = window if isinstance(window, tuple) else (window, window)
    if len(sides) != 2:  # noqa: PLR2004 - two sides
        message = f"window: expected one window or a pair of them, got {len(sides)}"
        raise TypeError(message)
    left, right = map(_length, sides)
    return f"-{right}" if isinstance(right, str) else -right, left


def _length(window: Window) -> dt.timedelta | np.timedelta64 | str | int:
    if isinstance(window, tidegate.Rows):
        message = (
            f"window: {window!r} counts rows in their order, and the rows of a DataFrame have "
        )
        message += "none beyond their times: give a window of time, or collect both sides and join "
        message += "them with tidegate.window_join or tidegate.band_join"
        raise tidegate.TidegateError(message)
    length: dt.timedelta | np.timedelta64 | str | int
    if isinstance(window, str):
        length = window.strip().removeprefix("+")
        is_negative = length.startswith("-")
    elif isinstance(window, (dt.timedelta, np.timedelta64)):
        length = window
        is_negative = bool(window < type(window)(0))
    elif isinstance(window, (int, np.integer)) and not isinstance(window, bool):
        length = int(window)
        is_negative = length < 0
    else:
        message = 'window: expected a timedelta, a string such as "15m", or an integer in the time '
        message += f"column's unit; got {type(window)}"
        raise TypeError(message)
    if is_negative:
        message = f"window must not be negative, got {window!r}"
        raise tidegate.TidegateError(message)
    return length
