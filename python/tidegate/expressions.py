"""Expressions over the columns of two rows (left and right), or of a single row.

Build an expression from `left` and `right` with Python's operators. It is equivalent to its SQL
text, which `where` also accepts:

    >>> from tidegate import left, right
    >>> (left.price < right.bid * 1.01) & right.size.is_not_null()
    left.price < right.bid * 1.01 AND right.size IS NOT NULL

There are two differences from plain Python. As in pandas, use `&`, `|` and `~` instead of `and`,
`or` and `not`, and put comparisons in parentheses. As in SQL, the result of `%` has the same sign
as the dividend. `abs`, `round`, `math.floor` and `math.ceil` accept expressions. All other
functions are methods.
"""

# ruff: noqa: SLF001 - the functions below the class are part of it.
from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import NoReturn, TypeAlias, Union

import numpy as np

Literal: TypeAlias = (
    bool | int | float | str | bytes | Decimal | date | timedelta | np.generic | None
)
Operand: TypeAlias = Union["Expr", Literal]

__all__ = ["Columns", "Expr", "case", "left", "right", "row"]


# A name that needs no quotes, and the path of a column or of a field.
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_PATH = rf'(left|right|row)(\.({_NAME}|"(""|[^"])*"))+'


class _Level(IntEnum):
    """The precedence levels of expressions, which determine where parentheses are needed."""

    OR = 1
    AND = 2
    NOT = 3
    PREDICATE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8


# Without `eq`, because `==` builds an expression.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """An expression over the columns of a left row and a right row.

    Create expressions by applying operators to the columns of `tidegate.left` and `tidegate.right`,
    or of `tidegate.row`. Do not call the constructor. An expression has no truth value. The column
    types are checked when the expression is passed to a call.

    Literals may be Python values (bool, int, float, str, bytes, Decimal, datetime, date, timedelta,
    None) or numpy scalars of the same kinds.

    Example:
        >>> from datetime import timedelta
        >>> from tidegate import left, right
        >>> late = right.seen - left.sent > timedelta(seconds=90)
        >>> late | left.kind.is_in(["lost", "returned"])
        right.seen - left.sent > INTERVAL '90 seconds' OR left.kind IN ('lost', 'returned')
    """

    _text: str
    _level: _Level

    def __repr__(self) -> str:
        return self._text

    # Otherwise, `__getitem__` would make an expression iterable.
    __iter__ = None

    def __getitem__(self, name: str) -> Expr:
        """Return a field of a struct.

        Example:
            >>> tidegate.row["payload"]["symbol"]
            row.payload.symbol
        """
        if not isinstance(name, str):
            message = f"`{self}`[...] expects the name of a field, got {name!r}"
            raise TypeError(message)
        if not re.fullmatch(_PATH, self._text):
            message = f"`{self}` is not a column; only columns and their fields have fields"
            raise TypeError(message)
        return Expr(f"{self._text}.{_identifier(name)}", _Level.ATOM)

    # Hashed by identity, because a set needs the truth value of `==` if two hashes are equal.
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        message = (
            f"`{self}` has a value for each pair of rows, but no truth value: "
            "use & for and, | for or, ~ for not, with each comparison in parentheses, "
            "and between() for a < x < b"
        )
        raise TypeError(message)

    # If a numpy scalar is on the left, this makes it use the reflected operators.
    __array_ufunc__ = None

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _binary(self, "=", other, _Level.PREDICATE)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _binary(self, "!=", other, _Level.PREDICATE)

    def __lt__(self, other: Operand) -> Expr:
        return _binary(self, "<", other, _Level.PREDICATE)

    def __le__(self, other: Operand) -> Expr:
        return _binary(self, "<=", other, _Level.PREDICATE)

    def __gt__(self, other: Operand) -> Expr:
        return _binary(self, ">", other, _Level.PREDICATE)

    def __ge__(self, other: Operand) -> Expr:
        return _binary(self, ">=", other, _Level.PREDICATE)

    def __add__(self, other: Operand) -> Expr:
        return _binary(self, "+", other, _Level.SUM)

    def __radd__(self, other: Operand) -> Expr:
        return _binary(other, "+", self, _Level.SUM)

    def __sub__(self, other: Operand) -> Expr:
        return _binary(self, "-", other, _Level.SUM)

    def __rsub__(self, other: Operand) -> Expr:
        return _binary(other, "-", self, _Level.SUM)

    def __mul__(self, other: Operand) -> Expr:
        return _binary(self, "*", other, _Level.PRODUCT)

    def __rmul__(self, other: Operand) -> Expr:
        return _binary(other, "*", self, _Level.PRODUCT)

    def __truediv__(self, other: Operand) -> Expr:
        return _binary(self, "/", other, _Level.PRODUCT)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _binary(other, "/", self, _Level.PRODUCT)

    def __mod__(self, other: Operand) -> Expr:
        return _binary(self, "%", other, _Level.PRODUCT)

    def __rmod__(self, other: Operand) -> Expr:
        return _binary(other, "%", self, _Level.PRODUCT)

    def __and__(self, other: Expr | bool) -> Expr:
        return _binary(self, "AND", _condition("&", other), _Level.AND)

    def __rand__(self, other: Expr | bool) -> Expr:
        return _binary(_condition("&", other), "AND", self, _Level.AND)

    def __or__(self, other: Expr | bool) -> Expr:
        return _binary(self, "OR", _condition("|", other), _Level.OR)

    def __ror__(self, other: Expr | bool) -> Expr:
        return _binary(_condition("|", other), "OR", self, _Level.OR)

    def __invert__(self) -> Expr:
        return Expr(f"NOT {_at_least(self, _Level.NOT)}", _Level.NOT)

    def __neg__(self) -> Expr:
        return Expr(f"-{_at_least(self, _Level.ATOM)}", _Level.SIGN)

    def __abs__(self) -> Expr:
        return Expr(f"abs({self})", _Level.ATOM)

    def is_null(self) -> Expr:
        """Return whether the value is null.

        Example:
            >>> tidegate.left.size.is_null()
            left.size IS NULL
        """
        return Expr(f"{_at_least(self, _Level.SUM)} IS NULL", _Level.PREDICATE)

    def is_not_null(self) -> Expr:
        """Return whether the value is not null.

        Example:
            >>> tidegate.left.size.is_not_null()
            left.size IS NOT NULL
        """
        return Expr(f"{_at_least(self, _Level.SUM)} IS NOT NULL", _Level.PREDICATE)

    def between(self, low: Operand, high: Operand) -> Expr:
        """Return whether `low <= value <= high`.

        Example:
            >>> abs(tidegate.left.x - tidegate.right.x).between(0, 5)
            abs(left.x - right.x) BETWEEN 0 AND 5
        """
        value, low, high = (_at_least(_expr(part), _Level.SUM) for part in (self, low, high))
        return Expr(f"{value} BETWEEN {low} AND {high}", _Level.PREDICATE)

    def is_in(self, values: Iterable[Operand]) -> Expr:
        """Return whether the value is one of `values`; the cost grows with the number of values.

        Example:
            >>> tidegate.left.venue.is_in(["XPAR", "XAMS"])
            left.venue IN ('XPAR', 'XAMS')
        """
        if isinstance(values, str | bytes):
            message = f"is_in() expects several values, got {values!r}; write [{values!r}]"
            raise TypeError(message)
        items = ", ".join(_expr(value)._text for value in values)
        if not items:
            return Expr("FALSE", _Level.ATOM)
        return Expr(f"{_at_least(self, _Level.SUM)} IN ({items})", _Level.PREDICATE)

    def like(self, pattern: str) -> Expr:
        """Return whether a string matches a pattern; `%` matches any string, and `_` any character.

        Example:
            >>> tidegate.left.name.like("Gate %")
            left.name LIKE 'Gate %'
        """
        return _matched(self, "LIKE", pattern)

    def matches(self, pattern: str) -> Expr:
        """Return whether a regular expression matches anywhere in a string.

        The pattern uses the syntax of Rust's `regex` crate. This syntax resembles that of Python's
        `re`, but does not support backreferences or look-around. The cost is therefore proportional
        to the string's length.

        Example:
            >>> tidegate.left.name.matches("^Gate [0-9]+$")
            left.name REGEXP '^Gate [0-9]+$'
        """
        return _matched(self, "REGEXP", pattern)

    def ilike(self, pattern: str) -> Expr:
        """Return whether a string matches a pattern, as in `like` but ignoring case.

        Example:
            >>> tidegate.left.name.ilike("gate %")
            left.name ILIKE 'gate %'
        """
        return _matched(self, "ILIKE", pattern)

    def starts_with(self, prefix: Operand) -> Expr:
        """Return whether a string starts with another string.

        Example:
            >>> tidegate.left.name.starts_with("Gate")
            starts_with(left.name, 'Gate')
        """
        return _called("starts_with", self, prefix)

    def ends_with(self, suffix: Operand) -> Expr:
        """Return whether a string ends with another string.

        Example:
            >>> tidegate.left.name.ends_with(tidegate.right.code)
            ends_with(left.name, right.code)
        """
        return _called("ends_with", self, suffix)

    def contains(self, part: Operand) -> Expr:
        """Return whether a string contains another string.

        Example:
            >>> tidegate.left.name.contains("ate")
            contains(left.name, 'ate')
        """
        return _called("contains", self, part)

    def lower(self) -> Expr:
        """Return the string in lower case.

        Example:
            >>> tidegate.left.name.lower() == tidegate.right.name.lower()
            lower(left.name) = lower(right.name)
        """
        return _called("lower", self)

    def upper(self) -> Expr:
        """Return the string in upper case.

        Example:
            >>> tidegate.left.venue.upper()
            upper(left.venue)
        """
        return _called("upper", self)

    def length(self) -> Expr:
        """Return the number of characters in the string.

        Example:
            >>> tidegate.left.name.length() > 4
            length(left.name) > 4
        """
        return _called("length", self)

    def substr(self, start: Operand, length: Operand = None) -> Expr:
        """Return a part of the string.

        Args:
            start: The position of the first character, counting from 1.
            length: The maximum number of characters. None means all that follow.

        Example:
            >>> tidegate.left.venue.substr(2, 3)
            substr(left.venue, 2, 3)
        """
        return _called("substr", self, start, *(() if length is None else (length,)))

    def coalesce(self, *others: Operand) -> Expr:
        """Return the first value that is not null among this value and the others.

        Example:
            >>> tidegate.left.size.coalesce(tidegate.right.size, 0)
            coalesce(left.size, right.size, 0)
        """
        return _called("coalesce", self, *others)

    def extract(self, part: str) -> Expr:
        """Return a part of a date or time as an integer, in the column's time zone.

        Args:
            part: `year`, `quarter`, `month`, `week` (of the ISO year), `day`, `dow` (0 is Sunday),
                `doy`, `hour`, `minute` or `second`.

        Example:
            >>> tidegate.left.time.extract("hour").between(9, 16)
            EXTRACT(hour FROM left.time) BETWEEN 9 AND 16
        """
        _check_word("extract", part)
        return Expr(f"EXTRACT({part} FROM {self._text})", _Level.ATOM)

    def cast(self, to: str) -> Expr:
        """Convert the value to another type. If a value does not fit the type, an error is raised.

        A cast to an integer truncates the digits after the decimal point, and a cast to a decimal
        rounds them.

        Args:
            to: `boolean`, `tinyint`, `smallint`, `integer`, `bigint`, `real`, `double`,
                `decimal(18, 2)`, `varchar`, `date` or `timestamp`.

        Example:
            >>> tidegate.left.code.cast("bigint") == tidegate.right.number
            CAST(left.code AS BIGINT) = right.number
        """
        _check_word("cast", to)
        return Expr(f"CAST({self._text} AS {to.upper()})", _Level.ATOM)

    def __floor__(self) -> Expr:
        return _called("floor", self)

    def __ceil__(self) -> Expr:
        return _called("ceil", self)

    def __round__(self, digits: int | None = None) -> Expr:
        return _called("round", self, *(() if digits is None else (digits,)))


class Columns:
    """The columns of one side of a join, such as `left.price` or `left["odd name"]`.

    The columns of `row` are the columns of an aggregation's streams.

    Example:
        >>> tidegate.left["odd name"] > tidegate.right.limit
        left."odd name" > right.limit
    """

    __slots__ = ("_side",)

    def __init__(self, side: str) -> None:
        self._side = side

    def __repr__(self) -> str:
        return f"tidegate.{self._side}"

    def __getattr__(self, name: str) -> Expr:
        # Code that copies, pickles or displays objects looks up such names.
        if name.startswith("_"):
            message = f"for a column of this name, write left[{name!r}] or right[{name!r}]"
            raise AttributeError(message)
        return self[name]

    def __getitem__(self, name: str) -> Expr:
        if not isinstance(name, str):
            message = f"{self!r}[...] expects the name of a column, got {name!r}"
            raise TypeError(message)
        return Expr(f"{self._side}.{_identifier(name)}", _Level.ATOM)


def _identifier(name: str) -> str:
    """Return a name as SQL text, in quotes if necessary."""
    quoted = '"' + name.replace('"', '""') + '"'
    return name if re.fullmatch(_NAME, name) else quoted


left = Columns("left")
"""The columns of the left table, for `where`."""

right = Columns("right")
"""The columns of the right table, for `where`."""

row = Columns("row")
"""The columns of a row, for `where` in an aggregation and in its functions."""


def _binary(first: Operand, operator: str, second: Operand, level: _Level) -> Expr:
    # `a - b - c` groups to the left; comparisons do not group at all.
    first_level = _Level.SUM if level is _Level.PREDICATE else level
    first_text = _at_least(_expr(first), first_level)
    second_text = _at_least(_expr(second), _Level(level + 1))
    return Expr(f"{first_text} {operator} {second_text}", level)


def case(*branches: tuple[Expr | bool, Operand], otherwise: Operand = None) -> Expr:
    """Return the value of the first condition that holds.

    Each value is computed only for rows to which it applies.

    Args:
        branches: Pairs, each with a condition and a value.
        otherwise: The value if no condition holds.

    Raises:
        TypeError: There are no branches, or a branch is not a pair of a condition and a value.

    Example:
        >>> from tidegate import case, left, right
        >>> case((left.side == "buy", right.ask), otherwise=right.bid) < left.limit
        CASE WHEN left.side = 'buy' THEN right.ask ELSE right.bid END < left.limit
    """
    parts = []
    for branch in branches:
        if not isinstance(branch, tuple) or len(branch) != 2:  # noqa: PLR2004 - a pair
            message = f"case() expects pairs of a condition and a value, got {branch!r}; "
            message += 'write case((left.side == "buy", right.ask), otherwise=right.bid)'
            raise TypeError(message)
        condition, value = branch
        if not isinstance(condition, Expr | bool):
            message = f"case() expects a condition before each value, got {condition!r}"
            raise TypeError(message)
        parts.append(f" WHEN {_expr(condition)._text} THEN {_expr(value)._text}")
    if not parts:
        message = "case() expects at least one pair of a condition and a value"
        raise TypeError(message)
    last = "" if otherwise is None else f" ELSE {_expr(otherwise)._text}"
    return Expr(f"CASE{''.join(parts)}{last} END", _Level.ATOM)


def _called(name: str, *operands: Operand) -> Expr:
    return Expr(f"{name}({', '.join(_expr(x)._text for x in operands)})", _Level.ATOM)


def _check_word(function: str, word: object) -> None:
    """Reject anything but a plain name, because other text could inject SQL."""
    if not isinstance(word, str) or not re.fullmatch(r"[A-Za-z]+( ?\([0-9]+, ?[0-9]+\))?", word):
        example = "hour" if function == "extract" else "bigint"
        message = f"{function}() expects a name, such as {example!r}, got {word!r}"
        raise TypeError(message)


def _matched(value: Expr, word: str, pattern: str) -> Expr:
    if not isinstance(pattern, str):
        message = f"expected a string as a pattern, got {pattern!r}"
        raise TypeError(message)
    return Expr(
        f"{_at_least(value, _Level.SUM)} {word} {_literal(pattern)._text}", _Level.PREDICATE
    )


def _at_least(expr: Expr, level: _Level) -> str:
    return expr._text if expr._level >= level else f"({expr._text})"


def _condition(operator: str, value: object) -> Expr | bool:
    if isinstance(value, Expr | bool):
        return value
    message = (
        f"{operator} expects conditions on both sides, got {value!r}: "
        f"put each comparison in parentheses, as in (left.a > 1) {operator} (left.b > 2)"
    )
    raise TypeError(message)


def _expr(value: Operand) -> Expr:
    return value if isinstance(value, Expr) else _literal(value)


def _literal(value: object) -> Expr:  # noqa: C901, PLR0911 - a line for each type
    if type(value).__module__ == "numpy":
        return _numpy_literal(value)
    match value:
        case None:
            return Expr("NULL", _Level.ATOM)
        case bool():
            return Expr("TRUE" if value else "FALSE", _Level.ATOM)
        case int():
            return _number(str(int(value)))
        case float() if math.isfinite(value):
            return _number(float.__repr__(value))
        case float():
            return Expr(f"DOUBLE '{float.__repr__(value)}'", _Level.ATOM)
        case Decimal() if value.is_finite():
            return Expr(f"DECIMAL '{value:f}'", _Level.ATOM)
        case str():
            return Expr("'" + value.replace("'", "''") + "'", _Level.ATOM)
        case bytes():
            return Expr(f"X'{value.hex()}'", _Level.ATOM)
        case datetime():
            return _timestamp(value)
        case date():
            return Expr(f"DATE '{value.isoformat()}'", _Level.ATOM)
        case timedelta():
            return _interval(value)
    message = (
        f"{value!r} of type {type(value).__name__} cannot be part of an expression: "
        "expected tidegate.left, tidegate.right or tidegate.row columns, or a bool, int, float, "
        "str, bytes, finite Decimal, datetime, date, timedelta, numpy scalar or None"
    )
    raise TypeError(message)


def _number(digits: str) -> Expr:
    return Expr(digits, _Level.SIGN if digits.startswith("-") else _Level.ATOM)


def _timestamp(value: datetime) -> Expr:
    if value != value:  # noqa: PLR0124 - pandas.NaT, the only time that is not equal to itself
        return Expr("NULL", _Level.ATOM)
    instant = value if value.tzinfo is None else value.astimezone(UTC)
    return Expr(f"TIMESTAMP '{instant.isoformat(sep=' ')}'", _Level.ATOM)


def _interval(value: timedelta) -> Expr:
    microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    # Only a pandas.Timedelta has nanoseconds.
    return _nanoseconds(microseconds * 1000 + int(getattr(value, "nanoseconds", 0)))


def _nanoseconds(count: int) -> Expr:
    for size, unit in ((10**9, "seconds"), (10**6, "milliseconds"), (1000, "microseconds")):
        if count % size == 0:
            return Expr(f"INTERVAL '{count // size} {unit}'", _Level.ATOM)
    return Expr(f"INTERVAL '{count} nanoseconds'", _Level.ATOM)


def _numpy_literal(value: object) -> Expr:

    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpy_time(value)
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain).__module__ == "numpy":
        message = (
            f"{value!r} of type {type(value).__name__} cannot be part of an expression: "
            "expected a numpy scalar that can be converted to a plain Python value"
        )
        raise TypeError(message)
    return _literal(plain)


def _numpy_time(value: np.datetime64 | np.timedelta64) -> Expr:

    if np.isnat(value):
        return Expr("NULL", _Level.ATOM)
    unit, step = np.datetime_data(value.dtype)
    if isinstance(value, np.datetime64):
        seconds = value.astype("M8[s]") if unit in ("Y", "M", "W", "D", "h", "m") else value
        return Expr(f"TIMESTAMP '{str(seconds).replace('T', ' ')}'", _Level.ATOM)
    sizes = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
    sizes |= {"D": 24 * sizes["h"], "W": 7 * 24 * sizes["h"]}
    if unit not in sizes:
        message = f"{value!r} has no fixed length: expected a unit from weeks to nanoseconds"
        raise TypeError(message)
    return _nanoseconds(int(value.astype(np.int64)) * step * sizes[unit])
