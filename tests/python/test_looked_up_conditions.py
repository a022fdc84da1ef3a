"""Conditions with index lookups, compared with ScaleJoin, which compares every pair."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate
from cases import grid
from tidegate import rows, window_join, window_join_batches

How = Literal["inner", "left", "right", "full", "semi", "anti"]

ROWS = 60_000
LENGTH = 20_000
BAND = "left.x BETWEEN right.x - 40 AND right.x + 40"
RANDOM = np.random.Generator(np.random.PCG64(7))


def table(kind: str, *, shuffled: bool = False) -> pa.Table:
    """Create rows with a million values, three keys, nulls and NaN."""
    x = RANDOM.integers(0, 1_000_000, ROWS)
    if kind == "drifting":
        x = x // 10 + np.arange(ROWS) * 30
    if kind == "many equal":
        # Rows with one value, which may be too many for an index lookup.
        x[::100] = 77
    y = RANDOM.uniform(0, 1000, ROWS)
    y[::1000] = np.nan
    missing = RANDOM.integers(0, 100, ROWS) == 0
    ts = np.sort(RANDOM.integers(0, ROWS, ROWS))
    if shuffled:
        RANDOM.shuffle(ts)
    columns = {"ts": ts, "x": pa.array(x, mask=missing), "y": y, "k": RANDOM.integers(0, 3, ROWS)}
    return pa.table(columns)


def plain(joined: pa.Table) -> pa.Table:
    """Replace NaN with a number, which equals itself."""
    for at, name in enumerate(joined.column_names):
        if pa.types.is_floating(joined[name].type):
            number = pc.if_else(pc.is_nan(joined[name]), -1.0, joined[name])
            joined = joined.set_column(at, name, number)
    return joined


def method(left: pa.Table, right: pa.Table, where: str) -> str:
    with window_join_batches(left, right, on="ts", window=LENGTH, where=where) as reader:
        return reader.stats()["where"]


@grid(how=["inner", "left", "right", "full", "semi", "anti"], window=[LENGTH, rows(LENGTH)])
def test_oracle_scalejoin(how: How, window: int | tidegate.rows) -> None:
    left, right = table("uniform"), table("uniform")
    wanted = window_join(
        left, right, on="ts", window=window, where=BAND, how=how, algorithm="scalejoin"
    )
    for threads in (1, 3, 8):
        found = window_join(
            left, right, on="ts", window=window, where=BAND, how=how, threads=threads
        )
        assert plain(found).equals(plain(wanted))
    assert method(left, right, BAND) == "looked up by value"


@pytest.mark.slow
@grid(
    query=[
        ("drifting", BAND, None),
        ("many equal", BAND, None),
        ("uniform", f"{BAND} AND left.y > right.y", None),
        ("uniform", "abs(left.y - right.y) <= 0.05 AND left.x <> right.x", None),
        ("uniform", "left.x = right.x AND left.k <> right.k", None),
        ("uniform", BAND, "k"),
    ],
    shuffled=[False, True],
)
def test_oracle_scalejoin_of_values_and_keys(
    query: tuple[str, str, str | None], *, shuffled: bool
) -> None:
    kind, where, by = query
    left, right = table(kind, shuffled=shuffled), table(kind, shuffled=shuffled)
    joins = [
        window_join(left, right, on="ts", window=LENGTH, by=by, where=where, algorithm=algorithm)
        for algorithm in ("auto", "scalejoin")
    ]
    assert joins[0].num_rows > 0
    assert plain(joins[0]).equals(plain(joins[1]))
    if by is None and kind != "many equal":
        assert method(left, right, where) == "looked up by value"


def test_what_is_not_looked_up() -> None:
    left, right = table("uniform"), table("uniform")
    assert method(left, right, "left.x < right.x") == "every pair compared"
    assert method(left[:100], right[:100], BAND) == "every pair compared"
    assert method(left[:100], right[:100], f"({BAND}) OR FALSE") == "evaluated on every pair"
