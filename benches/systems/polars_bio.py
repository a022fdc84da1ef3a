"""Joins with the `overlap` function of polars-bio, in which the key is the contig.

Inputs are Polars frames, and results are collected Polars frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import polars_bio as pb
from polars import col

from systems import Query
from workload import COLUMNS, LEFT

if TYPE_CHECKING:
    import pyarrow as pa

    from workload import Inputs


def overlap(inputs: Inputs, threads: int) -> Query[pl.DataFrame]:
    """Use `overlap` as documented, with string contigs and the default index."""
    return _overlap(inputs, threads, contig=pl.String(), algorithm="Coitrees")


def superintervals(inputs: Inputs, threads: int) -> Query[pl.DataFrame]:
    """Use the fastest of three indexes for this join, and contigs that are hashed once."""
    return _overlap(inputs, threads, contig=pl.Categorical(), algorithm="SuperIntervals")


def _overlap(
    inputs: Inputs, threads: int, contig: pl.DataType, algorithm: str
) -> Query[pl.DataFrame]:
    pb.set_option("datafusion.bio.coordinate_system_check", "false")
    pb.set_option("datafusion.execution.target_partitions", str(threads))
    left = _intervals(inputs.left, inputs.upper, contig)
    right = _intervals(inputs.right, 0, contig)
    # Both suffixes are always added, so a projection selects and renames the columns.
    columns = [col(f"{name}_l" if name in LEFT else f"{name}_r").alias(name) for name in COLUMNS]

    def run() -> pl.DataFrame:
        pairs = pb.overlap(left, right, algorithm=algorithm, suffixes=("_l", "_r"))
        frame: pl.DataFrame = pairs.select(columns).collect()
        return frame

    return Query(run, lambda frame: frame.to_arrow().to_batches())


def _intervals(table: pa.Table, reach: int, contig: pl.DataType) -> pl.DataFrame:
    """Add `chrom`, `start` and `end`, for intervals that are closed at both ends."""
    key, time = (col(name) for name in table.column_names[:2])
    return pl.DataFrame(table).with_columns(
        chrom=key.cast(pl.String).cast(contig), start=time - reach, end=time + reach
    )
