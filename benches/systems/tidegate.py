"""Joins with tidegate.

Inputs are Arrow tables. The result is one Arrow table, or batches, each of which is dropped or
summed on arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tidegate
from systems import Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from workload import Inputs


def table(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Use `interval_join`."""
    arguments = _arguments(inputs, threads)

    def run() -> pa.Table:
        return tidegate.interval_join(inputs.left, inputs.right, **arguments)

    return Query(run, lambda result: result.to_batches())


def batches(inputs: Inputs, threads: int) -> Query[int]:
    """Use `interval_join_batches`, and drop each batch."""

    def run() -> int:
        return sum(batch.num_rows for batch in _batches(inputs, threads))

    return Query(run, lambda _: _batches(inputs, threads))


def batches_summed(inputs: Inputs, threads: int) -> Query[list[Any]]:
    """Use `interval_join_batches`, and sum every column of every batch."""

    def run() -> list[Any]:
        return [
            column.to_numpy().sum()
            for batch in _batches(inputs, threads)
            for column in batch.columns
        ]

    return Query(run, lambda _: _batches(inputs, threads))


def _batches(inputs: Inputs, threads: int) -> Iterator[pa.RecordBatch]:
    arguments = _arguments(inputs, threads)
    with tidegate.interval_join_batches(inputs.left, inputs.right, **arguments) as reader:
        yield from reader


def _arguments(inputs: Inputs, threads: int) -> dict[str, Any]:
    return {
        "on": ("t", "t2"),
        "by": {"k": "k2"},
        "lower": -inputs.upper,
        "upper": inputs.upper,
        "threads": threads,
    }
