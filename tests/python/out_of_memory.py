"""Try one kind of call with little memory, then with more; `test_out_of_memory.py` runs this.

Each try may allocate so many MiB of address space beyond the current size of the process. A line of
JSON reports the outcomes of the call and of a small join after it, with the same limit and then
without one.
"""

import gc
import json
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate as tg
from tidegate import agg, left, right, rows

MIB = 1 << 20
ROWS = 150_000
THREADS = 2


def table(
    seed: int, keys: int = ROWS // 4, *, text: bool = False, disorder: bool = False
) -> pa.Table:
    """Create rows of times, keys and two values."""
    random = np.random.default_rng(seed)
    ts = random.integers(0, 4 * ROWS, ROWS)
    key = random.integers(0, keys, ROWS)
    return pa.table(
        {
            "ts": ts if disorder else np.sort(ts),
            "k": pa.array(key).cast(pa.string()) if text else key,
            "x": random.random(ROWS),
            "v": pa.array(key).cast(pa.string()) if text else random.integers(0, 1000, ROWS),
        }
    )


NEAR = {"on": "ts", "lower": -100_000, "upper": 100_000}
SUMS = {"n": agg.count(), "sum": agg.sum("x"), "most": agg.max("v")}


def tables(**kinds: object) -> tuple[pa.Table, pa.Table]:
    """Create two sides."""
    return table(1, **kinds), table(2, **kinds)  # type: ignore[arg-type]


def read(operator: object, sides: tuple[pa.Table, ...]) -> int:
    """Feed an operator in pieces and count its rows."""
    found = 0
    for start in range(0, ROWS, ROWS // 8):
        for source, side in zip(operator.sources, sides, strict=True):
            source.push(side.slice(start, ROWS // 8))
        while (batch := operator.poll()) is not None:
            found += batch.num_rows
    for source in operator.sources:
        source.close()
    return found + sum(batch.num_rows for batch in operator)


def snapshots(*sides: pa.Table) -> int:
    """Count the bytes of a snapshot that another operator restores."""
    operator = tg.IntervalJoin(*sides, **BY_KEY)
    for source, side in zip(operator.sources, sides, strict=True):
        source.push(side)
    saved = operator.snapshot()
    other = tg.IntervalJoin(*sides, **BY_KEY)
    other.restore(saved)
    return len(saved)


def blobs(count: int, size: int) -> pa.Table:
    """Create rows of one time with a long string each."""
    return pa.table({"ts": np.zeros(count, np.int64), "blob": pa.array(["x" * size] * count)})


def one_of(function: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
    """Make a call whose tables are one argument."""
    return lambda *sides, **arguments: function(sides, **arguments)


def one_key(count: int) -> pa.Table:
    """Create rows that all match each other."""
    return pa.table({"ts": np.zeros(count, np.int64), "k": np.zeros(count, np.int64)})


def rows_of(function: Callable[..., pa.Table], **arguments: object) -> Callable[..., int]:
    """Make a call that counts the rows of a result."""
    return lambda *sides: function(*sides, threads=THREADS, **arguments).num_rows


def fed(operator: Callable[..., object], **arguments: object) -> Callable[..., int]:
    """Make a call that counts the rows of an operator of all sides."""
    return lambda *sides: read(operator(*sides, threads=THREADS, **arguments), sides)


def fed_alike(operator: Callable[..., object], **arguments: object) -> Callable[..., int]:
    """Make a call that counts the rows of an operator whose sources are alike."""
    return lambda *sides: read(operator(sides[0], sources=2, threads=THREADS, **arguments), sides)


TEXT = partial(tables, text=True)
BY_KEY = NEAR | {"by": "k"}
AT_ONCE = {"on": "ts", "lower": 0, "upper": 0}
BAND = {"on": "x", "within": 1e-5, "time": "ts", "window": 100_000}
SLIDING = {"on": "ts", "size": 200_000, "advance": 50_000, "by": "k", "aggs": SUMS}

Data = Callable[[], tuple[pa.Table, ...]]

KINDS: dict[str, tuple[Data, Callable[..., int]]] = {
    "interval": (tables, rows_of(tg.interval_join, **BY_KEY)),
    "interval of text": (TEXT, rows_of(tg.interval_join, how="left", **BY_KEY)),
    "interval of two keys": (
        partial(tables, keys=50),
        rows_of(tg.interval_join, how="full", by=["k", "v"], **NEAR),
    ),
    "interval in disorder": (
        partial(tables, disorder=True),
        rows_of(tg.interval_join, how="full", **BY_KEY),
    ),
    "interval with a condition": (
        partial(tables, keys=10_000),
        rows_of(tg.interval_join, where=left.x + right.x < 1.2, **BY_KEY),
    ),
    "interval by value": (
        tables,
        rows_of(tg.interval_join, on="ts", lower=-200, upper=200, where=left.v == right.v),
    ),
    "interval in batches": (
        partial(tables, keys=5_000),
        lambda *s: sum(batch.num_rows for batch in tg.interval_join_batches(*s, **BY_KEY)),
    ),
    "everything with everything": (
        lambda: (one_key(100_000),) * 2,
        rows_of(tg.interval_join, by="k", **AT_ONCE),
    ),
    "more than any machine has": (
        lambda: (one_key(1_000_000),) * 2,
        rows_of(tg.interval_join, by="k", **AT_ONCE),
    ),
    "long texts": (lambda: (blobs(40, MIB), one_key(40)), rows_of(tg.interval_join, **AT_ONCE)),
    "window of time": (tables, rows_of(tg.window_join, on="ts", by="k", window=50_000)),
    "window of rows": (tables, rows_of(tg.window_join, on="ts", by="k", window=rows(50_000))),
    "band": (tables, rows_of(tg.band_join, on="x", within=4e-6)),
    "band with lists": (
        tables,
        rows_of(
            tg.band_join, on="x", within=2e-5, aggs={"n": agg.count(), "all": agg.collect("ts")}
        ),
    ),
    "overlap": (tables, rows_of(tg.overlap_join, on=("ts", "ts"), by="k")),
    "aggregate": (tables, rows_of(one_of(tg.aggregate), **SLIDING)),
    "aggregate of text": (TEXT, rows_of(one_of(tg.aggregate), **SLIDING)),
    "sessions": (
        tables,
        rows_of(one_of(tg.aggregate), on="ts", session=1000, by="k", aggs=SUMS),
    ),
    "merge": (TEXT, rows_of(one_of(tg.merge))),
    "band by ibwj-blocking": (
        tables,
        rows_of(tg.band_join, algorithm="ibwj-blocking", **(BAND | {"window": 200_000})),
    ),
    "BandJoin by ibwj-bplus-tree": (
        tables,
        fed(tg.BandJoin, algorithm="ibwj-bplus-tree", **BAND),
    ),
    "aggregate with a limit": (
        partial(tables, disorder=True),
        rows_of(one_of(tg.aggregate), memory_limit="256MB", lateness=10**9, **SLIDING),
    ),
    "IntervalJoin": (tables, fed(tg.IntervalJoin, **BY_KEY)),
    "IntervalJoin of text": (TEXT, fed(tg.IntervalJoin, how="full", **BY_KEY)),
    "WindowJoin": (tables, fed(tg.WindowJoin, on="ts", window=2000, where=left.v == right.v)),
    "BandJoin": (tables, fed(tg.BandJoin, **BAND)),
    "Aggregate": (tables, fed_alike(tg.Aggregate, **SLIDING)),
    "Merge": (TEXT, fed_alike(tg.Merge)),
    "snapshot": (TEXT, snapshots),
}
"""The kinds that can be tried: the function that creates the data, and the call."""

DENSE = {"on": "ts", "window": 2000, "where": left.x < right.x + 0.2, "columns": {}}
ALGORITHMS = [
    "auto",
    "cell",
    "handshake",
    "low-latency-handshake",
    "scalejoin",
    "scalejoin-gates",
    "splitjoin",
    "three-step",
]
KINDS |= {
    f"many pairs by {algorithm}": (
        lambda: tuple(side.slice(0, 6000) for side in tables()),
        rows_of(tg.window_join, algorithm=algorithm, **DENSE),
    )
    for algorithm in ALGORITHMS
}


def size() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


SMALL = pa.table({"ts": [1, 2, 3], "k": [7, 8, 7]})


def small_join() -> str:
    """Join a few rows, and return `right` if the result is correct."""
    found = tg.interval_join(SMALL, SMALL, on="ts", by="k", lower=-2, upper=2)
    assert found.column("ts").to_pylist() == [1, 1, 2, 3, 3]
    assert found.column("ts_right").to_pylist() == [1, 3, 2, 1, 3]
    return "right"


def outcome(call: Callable[[], object]) -> dict[str, object]:
    """Return the outcome of a call."""
    try:
        return {"result": call()}
    except (tg.TidegateError, MemoryError) as error:
        return {"error": type(error).__name__, "text": str(error)}


def main(kind: str, allowances: list[int]) -> None:
    """Try the kind with each allowance in MiB."""
    make, counted = KINDS[kind]
    call = partial(counted, *make())
    small_join()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    for allowance in allowances:
        gc.collect()
        resource.setrlimit(resource.RLIMIT_AS, (size() + allowance * MIB, hard))
        tried = outcome(call)
        gc.collect()
        tight = outcome(small_join)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        line = {"allowance": allowance, **tried, "tight": tight, "free": outcome(small_join)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def serve() -> None:
    """Try each kind that a line of standard input names, in a separate process.

    The process is forked, because imports would take longer than most kinds. A line reports how it
    ended.
    """
    for line in sys.stdin:
        kind, *allowances = json.loads(line)
        child = os.fork()
        if not child:
            main(kind, allowances)
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"ended": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
