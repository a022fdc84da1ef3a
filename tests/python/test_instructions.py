"""Each available instruction set produces the same rows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Prints the instruction set, and a digest of the results of functions with separate loops.
PROGRAM = """
import hashlib
import numpy as np
import pyarrow as pa
import tidegate as tg
from tidegate import _tidegate

random = np.random.default_rng(7)

def table(rows):
    return pa.table({
        "ts": np.sort(random.integers(0, 5_000, rows)),
        "k": random.integers(0, 5, rows),
        "end": np.full(rows, 9_999),
        "x": random.integers(0, 1_000, rows).astype(np.int32),
        "y": random.random(rows).astype(np.float32),
    })

left, right = table(3_000), table(3_000)
band = "abs(left.x - right.x) <= 9 and left.y < right.y"
found = [
    tg.interval_join(left, right, on="ts", by="k", lower=-20, upper=20),
    tg.window_join(left, right, on="ts", window=50, where=band),
    tg.band_join(left, right, on="x", within=1),
    tg.asof_join(left, right, on="ts", by="k"),
    tg.overlap_join(left, right, on=(("ts", "ts"), ("ts", "end")), where="left.k = right.x"),
    tg.merge([left, right], on="ts"),
    tg.merge([left, right, left], on="ts"),
    tg.aggregate([left, right], on="ts", by="k", size=100, advance=10,
                 aggs={"n": tg.agg.count(), "y": tg.agg.sum("y"), "x": tg.agg.max("x")}),
    tg.interval_join(left, right, on="ts", by="k", lower=-20, upper=20,
                     aggs={"sum": tg.agg.sum("y"), "max": tg.agg.max("x")}),
]
for index in ["buckets", "bplus-tree"]:
    join = tg.BandJoin(left.schema, right.schema, on="x", within=1, time="ts", window=100,
                       algorithm=index)
    for source, rows in zip(join.sources, [left, right]):
        source.push(rows)
        source.close()
    found.append(pa.Table.from_batches(list(join), join.schema))
digest = hashlib.sha256()
for table in found:
    assert table.num_rows > 1_000
    for column in table.columns:
        digest.update(repr(column.to_pylist()).encode())
print(_tidegate.SIMD, digest.hexdigest())
"""


def run(instructions: str | None) -> subprocess.CompletedProcess[str]:
    """Run the program with the variable, or without it."""
    environment = {name: text for name, text in os.environ.items() if name != "TIDEGATE_SIMD"}
    if instructions is not None:
        environment["TIDEGATE_SIMD"] = instructions
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_all_instructions_give_the_same_rows() -> None:
    widest = run(None)
    assert widest.returncode == 0, widest.stderr
    default, digest = widest.stdout.split()

    # Each set contains the sets before it.
    sets = ["portable", "neon"] if default == "neon" else ["portable", "avx2", "avx512"]
    for instructions in sets[: sets.index(default) + 1]:
        found = run(instructions)
        assert found.returncode == 0, found.stderr
        assert found.stdout.split() == [instructions, digest]


@pytest.mark.parametrize("name", ["sse9", "AVX2", "portable "])
def test_unknown_instructions_are_an_error_that_names_those_there_are(name: str) -> None:
    refused = run(name)

    assert refused.returncode == 1
    message = f"on this machine, got `{name}`"
    assert "ImportError: TIDEGATE_SIMD: expected one of `portable`" in refused.stderr
    assert message in refused.stderr
