"""The bounds of an interval as integers of the time that rows are sent by.

The join itself reads the bounds natively, from the caller's own values. What is computed here only
decides which rows are copied, so it may be wider, never narrower.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

import tidegate
from tidegate.spark.layout.layout import Reach

if TYPE_CHECKING:
    from tidegate.types import Bound, Length

_MICROS = {
    "w": Fraction(604_800_000_000),
    "d": Fraction(86_400_000_000),
    "h": Fraction(3_600_000_000),
    "m": Fraction(60_000_000),
    "min": Fraction(60_000_000),
    "s": Fraction(1_000_000),
    "ms": Fraction(1_000),
    "us": Fraction(1),
    "\u00b5s": Fraction(1),  # micro sign
    "\u03bcs": Fraction(1),  # Greek mu
    "ns": Fraction(1, 1_000),
}
_PART = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([^\W\d_]+)")


def reach(lower: Bound, upper: Bound, *, unit: int | None) -> Reach:
    """Bounds in units of `unit` microseconds, rounded outwards; None when time is an integer."""
    low, high = _exact(lower, unit), _exact(upper, unit)
    return Reach.of(
        None if low is None else math.floor(low), None if high is None else math.ceil(high)
    )


def steps(length: Length, *, unit: int | None) -> int:
    """A length that was checked natively, in units of `unit` microseconds."""
    exact = _exact(length, unit)
    if exact is None:
        message = "a length is needed"
        raise tidegate.TidegateError(message)
    return math.floor(exact)


def _exact(bound: Bound, unit: int | None) -> Fraction | int | None:
    if bound is None:
        return None
    if unit is not None and isinstance(bound, dt.timedelta):
        return Fraction(bound // dt.timedelta(microseconds=1), unit)
    if unit is not None and isinstance(bound, np.timedelta64):
        return Fraction(int(bound.astype("timedelta64[ns]").astype(np.int64)), 1_000 * unit)
    if unit is not None and isinstance(bound, str):
        return _parsed(bound) / unit
    if isinstance(bound, (int, np.integer)):
        return operator.index(bound)
    message = f"cannot use {bound!r} as a bound of this column: give a duration or an integer"
    raise tidegate.TidegateError(message)


def _parsed(text: str) -> Fraction:
    """Microseconds of a text such as "1h30m" or "-250ms"."""
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-")
    parts = _PART.findall(body)
    if not parts or _PART.sub("", body).strip() or any(unit not in _MICROS for _, unit in parts):
        message = f"cannot read {text!r} as a duration: write it like '1h30m', '-5s' or '250ms'"
        raise tidegate.TidegateError(message)
    return sign * sum((Fraction(number) * _MICROS[unit] for number, unit in parts), Fraction(0))
