"""What `tidegate.aggregate` computes: a function of a column of the rows that a condition selects.

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [1, 2, 7], "price": [3.0, 5.0, 4.0], "size": [10, 30, 20]})
    >>> tg.aggregate(
    ...     trades,
    ...     on="ts",
    ...     size=5,
    ...     aggs={"open": tg.agg.first("price"), "large": tg.agg.count(where=tg.row.size > 15)},
    ... ).to_pylist()[0]
    {'window_start': 0, 'window_end': 5, 'open': 3.0, 'large': 1}

Nulls are left out, except by `first` and `last`, which take rows with nulls, too. If no row is
left, a count is 0, and every other function is null.
"""

# ruff: noqa: A001 - the functions have the names that everyone knows, inside this module.
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tidegate.expressions import Expr

__all__ = [
    "Aggregate",
    "all",
    "any",
    "count",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "product",
    "std",
    "sum",
    "var",
    "weighted_mean",
]

Function: TypeAlias = Literal[
    "count",
    "sum",
    "mean",
    "min",
    "max",
    "first",
    "last",
    "var",
    "std",
    "weighted_mean",
    "product",
    "any",
    "all",
]
"""The name of a function."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function, its column and weights, and the condition on the rows that count, as SQL text.

    Made by the functions of this module. It can be compared, pickled and used in any call.
    """

    function: Function
    column: str | None = None
    where: str | None = None
    weights: str | None = None


def count(column: str | None = None, *, where: Expr | str | None = None) -> Aggregate:
    """Count the rows, or the values of a column that are not null.

    Args:
        column: The column, of any type; None for all rows.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.

    Example:
        >>> tidegate.agg.count("price", where="price > 3")
        Aggregate(function='count', column='price', where='price > 3', weights=None)
    """
    return _aggregate("count", column, where)


def sum(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Add up the values.

    Integers give int64, unsigned ones uint64, decimals decimal128(38), floats float64. Whole
    numbers are added exactly; a sum that does not fit its type is an error that names the window.

    Args:
        column: A column of numbers.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.

    Example:
        >>> tidegate.agg.sum("size", where=tidegate.row.side == "B").where
        "row.side = 'B'"
    """
    return _aggregate("sum", column, where)


def mean(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Average the values, as float64.

    Args:
        column: A column of numbers.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("mean", column, where)


def min(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Find the smallest value; NaN is larger than any other float.

    Args:
        column: A column of numbers, times, booleans, text or binary; text compares by its bytes.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("min", column, where)


def max(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Find the largest value; NaN is larger than any other float.

    Args:
        column: A column of numbers, times, booleans, text or binary; text compares by its bytes.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("max", column, where)


def first(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Take the value of the first row by time, then stream, then position; it may be null.

    Args:
        column: A column of any type.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
            `"price IS NOT NULL"` skips nulls.
    """
    return _aggregate("first", column, where)


def last(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Take the value of the last row by time, then stream, then position; it may be null.

    Args:
        column: A column of any type.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
            `"price IS NOT NULL"` skips nulls.
    """
    return _aggregate("last", column, where)


def var(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Compute the variance of the values as a sample, as float64; null for fewer than two.

    Args:
        column: A column of numbers.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("var", column, where)


def std(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Compute the square root of `var`.

    Args:
        column: A column of numbers.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("std", column, where)


def weighted_mean(column: str, weights: str, *, where: Expr | str | None = None) -> Aggregate:
    """Average the values, each counting by its weight, as float64.

    The average price by size is the volume-weighted average price (VWAP). A row counts where both
    are not null. If the weights add up to 0, the result is NaN, or infinite.

    Args:
        column: A column of numbers.
        weights: The column of the weights, which are numbers.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.

    Example:
        >>> trades = pa.table({"ts": [1, 2], "price": [10.0, 13.0], "size": [2, 1]})
        >>> vwap = tidegate.agg.weighted_mean("price", "size")
        >>> tidegate.aggregate(trades, on="ts", size=5, aggs={"vwap": vwap})["vwap"].to_pylist()
        [11.0]
    """
    return _aggregate("weighted_mean", column, where, weights)


def product(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Multiply the values, as float64.

    Args:
        column: A column of numbers.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("product", column, where)


def any(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Tell whether one of the values is true; null if there is none.

    Args:
        column: A column of booleans.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("any", column, where)


def all(column: str, *, where: Expr | str | None = None) -> Aggregate:
    """Tell whether all values are true; null if there is none.

    Args:
        column: A column of booleans.
        where: Which rows count: a condition on `tidegate.row` columns, or its SQL text.
    """
    return _aggregate("all", column, where)


def _aggregate(
    function: Function,
    column: str | None,
    where: Expr | str | None,
    weights: str | None = None,
) -> Aggregate:
    return Aggregate(function, column, None if where is None else str(where), weights)
