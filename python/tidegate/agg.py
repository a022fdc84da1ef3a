"""Aggregate functions over columns, for all rows or for those that meet a condition.

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

Instead of a column name, each function accepts an expression over `tidegate.row` columns, or its
SQL text:

    >>> tg.aggregate(
    ...     trades,
    ...     on="ts",
    ...     size=5,
    ...     aggs={"value": tg.agg.sum(tg.row.price * tg.row.size), "most": tg.agg.max("price * 2")},
    ... ).to_pylist()[0]
    {'window_start': 0, 'window_end': 5, 'value': 180.0, 'most': 10.0}

In `tidegate.interval_join`, each function can have its own interval. If you pass `lower`,
`upper`, `closed` or `prevailing` to a function, they override the arguments of the call:

    >>> quotes = pa.table({"ts": [0, 4, 6, 7], "bid": [1.0, 2.0, 3.0, 4.0]})
    >>> tg.interval_join(
    ...     trades,
    ...     quotes,
    ...     on="ts",
    ...     lower=-5,
    ...     upper=0,
    ...     aggs={"n_5": tg.agg.count(), "n_1": tg.agg.count(lower=-1)},
    ... ).select(["ts", "n_5", "n_1"]).to_pylist()
    [{'ts': 1, 'n_5': 1, 'n_1': 1}, {'ts': 2, 'n_5': 1, 'n_1': 0}, {'ts': 7, 'n_5': 3, 'n_1': 2}]

Nulls are ignored, except by `first`, `last`, `arg_min`, `arg_max`, `collect` and `udf`. If there
are no values, counts are 0, and the results of all other functions are null.
"""

# Long because each function has a docstring with an example.
# ruff: noqa: A001 - the functions have their usual names, which shadow built-ins only here.
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack

from tidegate import _tidegate
from tidegate._tidegate import TidegateError
from tidegate.deferred import Deferred
from tidegate.expressions import Expr
from tidegate.other_names import INSTEAD
from tidegate.types import Length, OwnInterval

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

__all__ = [
    "Aggregate",
    "Udf",
    "all",
    "any",
    "arg_max",
    "arg_min",
    "collect",
    "corr",
    "count",
    "count_distinct",
    "covar",
    "ewm_mean",
    "first",
    "last",
    "max",
    "mean",
    "median",
    "min",
    "product",
    "quantile",
    "std",
    "sum",
    "time_weighted_mean",
    "top",
    "udf",
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
    "time_weighted_mean",
    "ewm_mean",
    "product",
    "any",
    "all",
    "arg_min",
    "arg_max",
    "covar",
    "corr",
    "median",
    "quantile",
    "count_distinct",
    "collect",
    "top",
    "udf",
]
"""The name of a function."""

Column: TypeAlias = str | Expr
"""A column name, or an expression over `tidegate.row` columns, which may be SQL text."""

OWN = ("lower", "upper", "closed", "prevailing")
"""The arguments of a function that describe its own interval."""

Interpolation: TypeAlias = Literal["linear", "nearest", "lower", "higher", "midpoint"]
"""The interpolation method for a quantile that lies between two values."""


@dataclass(frozen=True, slots=True)
class Udf:
    """A user-defined function and its result type; created by `udf`."""

    function: Callable[..., object]
    returns: pa.DataType

    @property
    def field(self) -> pa.Field:
        """The column of the results."""
        import pyarrow as pa  # noqa: PLC0415 - tidegate loads without a data library

        return pa.field("", self.returns)

    def __call__(self, lists: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function with list columns, and convert its results to a column.

        Args:
            lists: The arguments of the function. Each column contains one list per window.

        Raises:
            TidegateError: The function failed, or its results do not have the expected type.
        """
        import pyarrow as pa  # noqa: PLC0415 - as above

        try:
            found = self.function(*lists.columns)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            message = f"the function raised {type(error).__name__}: {error}"
            raise TidegateError(message) from error
        if isinstance(found, pa.ChunkedArray):
            # pyarrow copies the chunks without checking their offsets.
            _tidegate._check(pa.table([found], names=[""]), "the function's results")  # noqa: SLF001 - the package's own
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            try:
                found = pa.array(found, type=self.returns)
            except (pa.ArrowException, TypeError, ValueError) as error:
                message = (
                    f"the function returned {type(found).__name__}; "
                    f"pyarrow cannot build an array of {self.returns} from it ({error}); "
                    "return one value for each list"
                )
                raise TidegateError(message) from error
        if found.type != self.returns:
            message = (
                f"the function returned {found.type}, but returns= specifies {self.returns}; "
                f"give returns={found.type}, or cast the results"
            )
            raise TidegateError(message)
        return pa.record_batch([found], names=[""])


@dataclass(frozen=True, slots=True, repr=False)
class Aggregate:
    """A function with its columns and parameters, and a condition on rows as SQL text.

    Aggregates are created by the functions in this module. Aggregates can be compared, pickled, and
    used in several calls.
    """

    function: Function
    column: str | None = None
    where: str | None = None
    second: str | None = None
    share: float | None = None
    interpolation: Interpolation | None = None
    inputs: tuple[str, ...] = ()
    udf: Udf | None = None
    n: int | None = None
    half_life: Length | None = None
    interval: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        for name in (self.column, self.second, *self.inputs):
            if name is not None and not isinstance(name, str):
                message = f"{self.function}: expected the name of a column or an expression, got a "
                message += f"value of type {type(name).__name__}; add the values to the table as a "
                message += "column, and give its name"
                raise TypeError(message)
        if self.function == "udf" and self.udf is None:
            message = "udf: there is no function to call; write tidegate.agg.udf(function, ...)"
            raise ValueError(message)
        if self.function == "quantile" and None in {self.column, self.share, self.interpolation}:
            message = "quantile: expected a column and a share; write "
            message += "tidegate.agg.quantile(column, share)"
            raise ValueError(message)
        if self.function == "top" and self.n is None:
            message = "top: expected a column and a number of rows; write "
            message += "tidegate.agg.top(column, 3)"
            raise ValueError(message)

    @property
    def columns(self) -> list[str]:
        """The columns that the function reads."""
        return [name for name in (self.column, self.second) if name is not None] + list(self.inputs)

    def __repr__(self) -> str:
        """Show the fields that are set."""
        every = ((field.name, getattr(self, field.name)) for field in fields(self))
        known = (f"{name}={value!r}" for name, value in every if value not in (None, ()))
        return f"Aggregate({', '.join(known)})"


def __getattr__(name: str) -> object:
    message = f"module 'tidegate.agg' has no function {name!r}"
    if name in INSTEAD:
        message += f"; write tidegate.agg.{INSTEAD[name]}"
    elif not name.startswith("_"):
        near = get_close_matches(name, __all__, 1)
        message += f"; did you mean {near[0]}?" if near else f"; it has {', '.join(__all__[2:])}"
    raise AttributeError(message, name=name)


def count(
    column: Column | None = None,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Count the rows, or the non-null values in a column.

    Args:
        column: A column of any type. None counts all rows.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> tidegate.agg.count("price", where="price > 3")
        Aggregate(function='count', column='price', where='price > 3')
    """
    return _aggregate("count", column, where, **interval)


def sum(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Add up the values.

    The result type is int64 for signed integers, uint64 for unsigned integers, decimal128(38) for
    decimals, and float64 for floats. Integers and decimals are added exactly. The sum of booleans
    is the number of true values, as int64. The sum of durations is a duration of the same type. If
    a sum does not fit into its type, an error that names the window is raised.

    Args:
        column: A column of numbers, durations or booleans.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> tidegate.agg.sum("size", where=tidegate.row.side == "B").where
        "row.side = 'B'"
    """
    return _aggregate("sum", column, where, **interval)


def mean(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the mean of the values, as float64.

    The mean of booleans is the fraction of values that are true. The mean of durations is a
    duration of the same type, rounded to the nearest unit of this type. Halves are rounded away
    from zero.

    Args:
        column: A column of numbers, durations or booleans.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("mean", column, where, **interval)


def min(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the smallest value. NaN is larger than any other float.

    0.0 and -0.0 are equal, and the result is 0.0 for either of them.

    Args:
        column: A column of numbers, times, booleans, strings or binary values. Strings are compared
            byte by byte.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("min", column, where, **interval)


def max(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the largest value. NaN is larger than any other float.

    0.0 and -0.0 are equal, and the result is 0.0 for either of them.

    Args:
        column: A column of numbers, times, booleans, strings or binary values. Strings are compared
            byte by byte.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("max", column, where, **interval)


def first(
    column: Column,
    n: int | None = None,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Return the value (possibly null) from the first row in order of time, stream and position.

    With `n`, return a list of the values from the first `n` rows, in row order. The list is
    shorter if there are fewer rows, and null if there are none. `tidegate.Aggregate` then keeps all
    rows until their windows are complete.

    Args:
        column: A column of any type.
        n: The maximum length of the list. None returns a single value instead of a list.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text. `"price IS NOT NULL"` skips nulls.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> rows = pa.table({"ts": [1, 2, 3, 7], "x": [5, 6, 7, 8]})
        >>> aggs = {"x": tidegate.agg.first("x", 2)}
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs=aggs)["x"].to_pylist()
        [[5, 6], [8]]
    """
    return _aggregate("first", column, where, n=n, **interval)


def last(
    column: Column,
    n: int | None = None,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Return the value (possibly null) from the last row in order of time, stream and position.

    With `n`, return a list of the values from the last `n` rows, in row order. The list is
    shorter if there are fewer rows, and null if there are none. `tidegate.Aggregate` then keeps all
    rows until their windows are complete.

    Args:
        column: A column of any type.
        n: The maximum length of the list. None returns a single value instead of a list.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text. `"price IS NOT NULL"` skips nulls.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> rows = pa.table({"ts": [1, 2, 3, 7], "x": [5, 6, 7, 8]})
        >>> aggs = {"x": tidegate.agg.last("x", 2)}
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs=aggs)["x"].to_pylist()
        [[6, 7], [8]]
    """
    return _aggregate("last", column, where, n=n, **interval)


def var(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the sample variance of the values, as float64; null for fewer than two values.

    The result is infinite if the sum of squared deviations from the mean exceeds the range of
    float64. The variance is never negative, and it is NaN only if one of the values is NaN or
    infinite.

    Args:
        column: A column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("var", column, where, **interval)


def std(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the square root of `var`.

    Args:
        column: A column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("std", column, where, **interval)


def weighted_mean(
    column: Column,
    weights: Column,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Compute the weighted mean of the values, as float64.

    The mean of prices weighted by size is the volume-weighted average price (VWAP). Rows with a
    null value or a null weight are ignored. If the sum of the weights is 0, the result is NaN or
    infinite.

    Args:
        column: A column of numbers.
        weights: A column of numbers to use as weights.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> trades = pa.table({"ts": [1, 2], "price": [10.0, 13.0], "size": [2, 1]})
        >>> vwap = tidegate.agg.weighted_mean("price", "size")
        >>> tidegate.aggregate(trades, on="ts", size=5, aggs={"vwap": vwap})["vwap"].to_pylist()
        [11.0]
    """
    return _aggregate("weighted_mean", column, where, weights, **interval)


def time_weighted_mean(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the mean of the values, weighted by the time for which each value holds, as float64.

    A value holds until the next row, and the last value until the end of the window. The time
    before the first row is ignored. In the `aggs` of an interval join, the last value holds until
    the upper end of the interval, which must be a duration or an integer. With `prevailing=True`,
    the value that prevails at the lower end holds from there on. Rows with a null value are
    ignored, so the previous value continues to hold. If the values hold for zero time, the result
    is the last value.

    Args:
        column: A column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> quotes = pa.table({"ts": [0, 8], "bid": [10.0, 20.0]})
        >>> aggs = {"bid": tidegate.agg.time_weighted_mean("bid")}
        >>> tidegate.aggregate(quotes, on="ts", size=10, aggs=aggs)["bid"].to_pylist()
        [12.0]
    """
    return _aggregate("time_weighted_mean", column, where, **interval)


def ewm_mean(
    column: Column,
    half_life: Length,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Compute the exponentially weighted mean of the values, as float64.

    A row's weight halves with each half-life before the last row. As with pandas'
    `ewm(halflife=..., times=...)`, the weights depend on times, not on the number of rows. In
    joins, the function is available in the `aggs` of interval joins. Rows with a null value are
    ignored.

    Args:
        column: A column of numbers.
        half_life: The time in which a weight halves: a duration such as `"5m"`, or an integer if
            the times are integers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> trades = pa.table({"ts": [0, 10], "price": [4.0, 1.0]})
        >>> aggs = {"price": tidegate.agg.ewm_mean("price", 10)}
        >>> tidegate.aggregate(trades, on="ts", size=20, aggs=aggs)["price"].to_pylist()
        [2.0]
    """
    condition = None if where is None else str(where)
    own = _own(interval)
    return Aggregate("ewm_mean", _text(column), condition, half_life=half_life, interval=own)


def arg_min(
    column: Column, by: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Return a column's value (possibly null) from the row in which another column is smallest.

    If several rows share the smallest value, the earliest of these rows is used. Rows in which `by`
    is null are ignored. NaN is larger than any other float, and 0.0 equals -0.0.

    Args:
        column: A column of any type.
        by: A column of numbers, times, booleans, strings or binary values.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> trades = pa.table({"ts": [1, 2], "price": [10.0, 13.0], "venue": ["N", "Q"]})
        >>> cheapest = tidegate.agg.arg_min("venue", "price")
        >>> tidegate.aggregate(trades, on="ts", size=5, aggs={"v": cheapest})["v"].to_pylist()
        ['N']
    """
    return _aggregate("arg_min", column, where, by, **interval)


def arg_max(
    column: Column, by: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Return a column's value (possibly null) from the row in which another column is largest.

    If several rows share the largest value, the earliest of these rows is used. Rows in which `by`
    is null are ignored. NaN is larger than any other float.

    Args:
        column: A column of any type.
        by: A column of numbers, times, booleans, strings or binary values.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("arg_max", column, where, by, **interval)


def covar(
    column: Column,
    other: Column,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Compute the sample covariance of two columns, as float64; null for fewer than two rows.

    Rows in which either column is null are ignored.

    Args:
        column: A column of numbers.
        other: Another column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("covar", column, where, other, **interval)


def corr(
    column: Column,
    other: Column,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Compute Pearson's correlation of two columns, as float64; null for fewer than two rows.

    Rows in which either column is null are ignored. The result is NaN if all values in a column are
    equal, or if a variance would be infinite.

    Args:
        column: A column of numbers.
        other: Another column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> rows = pa.table({"ts": [1, 2, 3], "x": [1, 2, 3], "y": [6.0, 4.0, 2.0]})
        >>> corr = tidegate.agg.corr("x", "y")
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs={"corr": corr})["corr"].to_pylist()
        [-1.0]
    """
    return _aggregate("corr", column, where, other, **interval)


def median(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Compute the median of the values, as float64. NaN is larger than any other value.

    The median is exact. `tidegate.Aggregate` therefore keeps all rows until their windows are
    complete.

    Args:
        column: A column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> rows = pa.table({"ts": [1, 2, 3, 4], "x": [1, 9, 2, 3]})
        >>> median = tidegate.agg.median("x")
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs={"x": median})["x"].to_pylist()
        [2.5]
    """
    return _aggregate("median", column, where, **interval)


def quantile(
    column: Column,
    share: float,
    *,
    interpolation: Interpolation = "linear",
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Compute a quantile of the values, as float64. NaN is larger than any other value.

    The quantile is exact. `tidegate.Aggregate` therefore keeps all rows until their windows are
    complete.

    Args:
        column: A column of numbers.
        share: The quantile to compute, from 0 (the smallest value) to 1 (the largest value).
        interpolation: The method for a quantile that lies between two values. `linear` interpolates
            between them, as in NumPy. `nearest` uses the nearest value, as in Polars. `lower` and
            `higher` use the lower or higher value, and `midpoint` uses their mean.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> rows = pa.table({"ts": [1, 2, 3, 4], "ms": [10, 90, 20, 30]})
        >>> p75 = tidegate.agg.quantile("ms", 0.75)
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs={"p75": p75})["p75"].to_pylist()
        [45.0]
    """
    condition = None if where is None else str(where)
    own = _own(interval)
    return Aggregate(
        "quantile",
        _text(column),
        condition,
        share=share,
        interpolation=interpolation,
        interval=own,
    )


def count_distinct(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Count the distinct values, as int64. Nulls are ignored.

    All NaNs count as one value, and 0.0 and -0.0 also count as one value. `tidegate.Aggregate`
    keeps all rows until their windows are complete.

    Args:
        column: A column of numbers, times, booleans, strings or binary values.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("count_distinct", column, where, **interval)


def collect(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Collect the values, including nulls, into a list in row order; null if there are no rows.

    `tidegate.Aggregate` keeps all rows until their windows are complete.

    Args:
        column: A column of any type.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> rows = pa.table({"ts": [1, 2, 7], "x": ["a", None, "c"]})
        >>> collect = tidegate.agg.collect("x")
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs={"x": collect})["x"].to_pylist()
        [['a', None], ['c']]
    """
    return _aggregate("collect", column, where, **interval)


def top(
    column: Column,
    n: int,
    *,
    by: Column | None = None,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Return a list of values from the rows with the largest values of `by`, largest first.

    Rows with equal values of `by` are in row order, and the earliest of them are used. The list is
    shorter if there are fewer rows, and null if there are none. Rows in which `by` is null are
    ignored. NaN is larger than any other float. To list the rows with the smallest numbers, negate
    `by`. `tidegate.Aggregate` keeps all rows until their windows are complete.

    Args:
        column: A column of any type.
        n: The maximum length of the list.
        by: A column of numbers, times, booleans, strings or binary values. The default is `column`.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Example:
        >>> trades = pa.table({"ts": [1, 2, 3], "venue": ["N", "Q", "B"], "size": [10, 30, 20]})
        >>> aggs = {
        ...     "sizes": tidegate.agg.top("size", 2),
        ...     "smallest": tidegate.agg.top("venue", 2, by=-tidegate.row.size),
        ... }
        >>> found = tidegate.aggregate(trades, on="ts", size=5, aggs=aggs)
        >>> found.select(["sizes", "smallest"]).to_pylist()
        [{'sizes': [30, 20], 'smallest': ['N', 'B']}]
    """
    return _aggregate("top", column, where, column if by is None else by, n=n, **interval)


def udf(
    function: Callable[..., object],
    inputs: Column | Sequence[Column],
    returns: pa.DataType,
    *,
    where: Expr | str | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    """Call a user-defined function, which computes the results for many windows at a time.

    For each input, the function receives an Arrow list array with one list per window. Lists
    include nulls. The function returns one value per window: an Arrow array of the type `returns`,
    or any object that `pyarrow.array` can convert to this type. Windows without rows are not passed
    to the function, and their results are null. A result must depend only on the values in its
    window, because the function may be called from any thread, in any order, and with any group of
    windows. `tidegate.Aggregate` keeps all rows until their windows are complete.

    Args:
        function: The function. Spark pickles it.
        inputs: The name of the column that is passed to the function, or a list of names.
        returns: The Arrow type of the results.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.

    Raises:
        TypeError: `returns` is not an Arrow type, or `function` is not callable.

    Example:
        >>> def spread(prices):
        ...     ordered = map(sorted, prices.to_pylist())
        ...     return [values[-1] - values[0] for values in ordered]
        >>> rows = pa.table({"ts": [1, 2, 7], "price": [3.0, 5.0, 4.0]})
        >>> aggs = {"spread": tidegate.agg.udf(spread, "price", pa.float64())}
        >>> tidegate.aggregate(rows, on="ts", size=5, aggs=aggs)["spread"].to_pylist()
        [2.0, 0.0]
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    if not callable(function):
        message = f"function: expected a function that accepts list arrays, got {function!r}"
        raise TypeError(message)
    if not isinstance(returns, pa.DataType):
        message = f"returns: expected an Arrow type such as pyarrow.float64(), got {returns!r}"
        raise TypeError(message)
    every = [inputs] if isinstance(inputs, str | Expr) else inputs
    names = tuple(_text(one) for one in every)
    condition = None if where is None else str(where)
    own = _own(interval)
    return Aggregate("udf", where=condition, inputs=names, udf=Udf(function, returns), interval=own)


def product(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Multiply the values, as float64.

    Args:
        column: A column of numbers.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("product", column, where, **interval)


def any(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Return whether any of the values is true; null if there are no values.

    Args:
        column: A column of booleans.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("any", column, where, **interval)


def all(
    column: Column, *, where: Expr | str | None = None, **interval: Unpack[OwnInterval]
) -> Aggregate:
    """Return whether all values are true; null if there are no values.

    Args:
        column: A column of booleans.
        where: A condition that selects the rows to include, as an expression over `tidegate.row`
            columns or as SQL text.
        **interval: The function's own interval in `interval_join`: `lower`, `upper`, `closed` and
            `prevailing`. Arguments that are left out are inherited from the call.
    """
    return _aggregate("all", column, where, **interval)


def _aggregate(
    function: Function,
    column: Column | None,
    where: Expr | str | None,
    second: Column | None = None,
    n: int | None = None,
    **interval: Unpack[OwnInterval],
) -> Aggregate:
    condition = None if where is None else str(where)
    name, other = (None if one is None else _text(one) for one in (column, second))
    return Aggregate(function, name, condition, other, n=n, interval=_own(interval))


def _own(interval: OwnInterval) -> tuple[tuple[str, object], ...]:
    """Return the settings of an interval, in a form that can be hashed."""
    for name in interval:
        if name not in OWN:
            message = f"{name}: a function has no such argument"
            near = get_close_matches(name, (*OWN, "where"), 1)
            message += f"; did you mean {near[0]}?" if near else f"; it has where, {', '.join(OWN)}"
            raise TypeError(message)
    return tuple((name, value) for name, value in interval.items())


def _text(column: Column) -> str:
    """Return the name of a column, or the SQL text of an expression."""
    if not isinstance(column, Expr):
        return column
    alone = re.fullmatch(r"(?:row|right)\.([A-Za-z_][A-Za-z0-9_]*)", str(column))
    return str(column) if alone is None else alone[1]
