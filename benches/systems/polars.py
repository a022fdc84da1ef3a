"""Joins with the streaming engine of Polars.

Inputs are lazy frames over Arrow memory, and results are collected DataFrames.

In the forms with buckets, a left row is in each of the at most two time buckets that its interval
touches, and a right row is in one. Key and bucket are packed into one integer, which is faster to
join than two columns. The optimizer fuses the filter by time into the join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars import col

from systems import Query
from workload import COLUMNS, KEY_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workload import Inputs


def plain(inputs: Inputs, _threads: int) -> Query[pl.DataFrame]:
    """Join on the key, then filter by time."""
    left, right = _frames(inputs)
    pairs = left.join(right, left_on="k", right_on="k2", coalesce=False)
    return _collected(pairs.filter(_close(inputs.upper)))


def join_where(inputs: Inputs, _threads: int) -> Query[pl.DataFrame]:
    """Use `join_where` with all three conditions."""
    left, right = _frames(inputs)
    pairs = left.join_where(
        right,
        col("k") == col("k2"),
        col("t2") >= col("t") - inputs.upper,
        col("t2") <= col("t") + inputs.upper,
    )
    return _collected(pairs)


def range_join(inputs: Inputs, _threads: int) -> Query[pl.DataFrame]:
    """Use `join_where` on key and time as one number, so that a range join finds only the pairs."""
    left, right = _frames(inputs)
    code = col("k") * (1 << KEY_SHIFT) + col("t")
    pairs = left.with_columns(low=code - inputs.upper, high=code + inputs.upper).join_where(
        right.with_columns(code=col("k2") * (1 << KEY_SHIFT) + col("t2")),
        col("code") >= col("low"),
        col("code") <= col("high"),
    )
    return _collected(pairs)


def buckets(inputs: Inputs, _threads: int) -> Query[pl.DataFrame]:
    """Use time buckets that are as wide as the interval."""
    return _collected(_bucketed(inputs, 1))


def wide_buckets(inputs: Inputs, _threads: int) -> Query[pl.DataFrame]:
    """Use time buckets twice as wide, with fewer copies of left rows and more pairs to filter."""
    return _collected(_bucketed(inputs, 2))


def buckets_batches(inputs: Inputs, _threads: int) -> Query[int]:
    """Use time buckets, and drop each batch of the result on arrival."""
    pairs = _bucketed(inputs, 1).select(COLUMNS)

    def stream() -> Iterator[pl.DataFrame]:
        return pairs.collect_batches(engine="streaming", maintain_order=False)

    return Query(
        lambda: sum(frame.height for frame in stream()),
        lambda _: (batch for frame in stream() for batch in frame.to_arrow().to_batches()),
    )


def _bucketed(inputs: Inputs, widen: int) -> pl.LazyFrame:
    left, right = _frames(inputs)
    width = 2 * inputs.upper * widen + 1
    first = (col("t") - inputs.upper) // width
    last = (col("t") + inputs.upper) // width
    spread = pl.concat(
        [
            left.with_columns(bucket=_packed(col("k"), first)),
            left.filter(first < last).with_columns(bucket=_packed(col("k"), last)),
        ]
    )
    right = right.with_columns(bucket=_packed(col("k2"), col("t2") // width))
    return spread.join(right, on="bucket").filter(_close(inputs.upper))


def _packed(key: pl.Expr, bucket: pl.Expr) -> pl.Expr:
    return key * (1 << 32) + bucket


def _close(upper: int) -> pl.Expr:
    return col("t2").is_between(col("t") - upper, col("t") + upper)


def _frames(inputs: Inputs) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    return pl.DataFrame(inputs.left).lazy(), pl.DataFrame(inputs.right).lazy()


def _collected(pairs: pl.LazyFrame) -> Query[pl.DataFrame]:
    query = pairs.select(COLUMNS)
    return Query(
        lambda: query.collect(engine="streaming"),
        lambda frame: frame.to_arrow().to_batches(),
    )
