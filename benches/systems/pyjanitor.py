"""Joins with the `conditional_join` of pyjanitor. Inputs and results are pandas frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import janitor  # noqa: F401  (adds conditional_join to pandas)
import pyarrow as pa

from systems import Query
from workload import LEFT, RIGHT

if TYPE_CHECKING:
    import pandas as pd

    from workload import Inputs


def conditional_join(inputs: Inputs, _threads: int) -> Query[pd.DataFrame]:
    """Use `conditional_join` with all three conditions."""
    left, right = inputs.left.to_pandas(), inputs.right.to_pandas()
    left["low"], left["high"] = left["t"] - inputs.upper, left["t"] + inputs.upper
    columns = {"left": list(LEFT), "right": list(RIGHT)}

    def run() -> pd.DataFrame:
        pairs: pd.DataFrame = left.conditional_join(
            right,
            ("k", "k2", "=="),
            ("low", "t2", "<="),
            ("high", "t2", ">="),
            output_columns=columns,
        )
        return pairs

    return Query(run, lambda frame: pa.Table.from_pandas(frame, preserve_index=False).to_batches())
