"""Try one kind of call with little memory, then with more: what `test_out_of_memory.py` runs.

Each try has so many MiB of addresses beyond what the process has at that moment. A line of JSON
says what came of it, and of a small join after it: first with the same limit, then without one.
"""

import gc
import json
import resource
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import tidegate as tg
from tidegate import agg, left, right, rows

MIB = 1 << 20
ROWS = 200_000
THREADS = 2


def table(seed: int, keys: int = ROWS // 4, *, text: bool = False, disorder: bool = False) -> pa.Table:
    """Rows of times, keys and two values."""
    random = np.random.default_rng(seed)
    ts = random.integers(0, 4 * ROWS, ROWS)
    key = random.integers(0, keys, ROWS)
    return pa.table({
        "ts": ts if disorder else np.sort(ts),
        "k": pa.array(key).cast(pa.string()) if text else key,
        "x": random.random(ROWS),
        "v": pa.array(key).cast(pa.string()) if text else random.integers(0, 1000, ROWS),
    })


NEAR = {"on": "ts", "lower": -100_000, "upper": 100_000, "threads": THREADS}
SUMS = {"n": agg.count(), "sum": agg.sum("x"), "most": agg.max("v")}


def tables(**kinds: object) -> tuple[pa.Table, pa.Table]:
    """Two sides."""
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


def snapshots(operator: tg.IntervalJoin, sides: tuple[pa.Table, ...]) -> int:
    """Count the bytes of a snapshot that another operator takes over."""
    for source, side in zip(operator.sources, sides, strict=True):
        source.push(side)
    saved = operator.snapshot()
    other = tg.IntervalJoin(*sides, by="k", **NEAR)
    other.restore(saved)
    return len(saved)


def blobs(count: int, size: int) -> pa.Table:
    """Rows of one time with a long text each."""
    return pa.table({"ts": np.zeros(count, np.int64), "blob": pa.array(["x" * size] * count)})


def one_key(count: int) -> pa.Table:
    """Rows of which all match each other."""
    return pa.table({"ts": np.zeros(count, np.int64), "k": np.zeros(count, np.int64)})


def kinds() -> dict[str, Callable[[], Callable[[], int]]]:
    """What can be tried: a function that makes the data and gives the call."""
    return {
        "interval": lambda: (
            lambda s: lambda: tg.interval_join(*s, by="k", **NEAR).num_rows
        )(tables()),
        "interval of text": lambda: (
            lambda s: lambda: tg.interval_join(*s, by="k", how="left", **NEAR).num_rows
        )(tables(text=True)),
        "interval of two keys": lambda: (
            lambda s: lambda: tg.interval_join(*s, by=["k", "v"], how="full", **NEAR).num_rows
        )(tables(keys=50)),
        "interval in disorder": lambda: (
            lambda s: lambda: tg.interval_join(*s, by="k", how="full", **NEAR).num_rows
        )(tables(disorder=True)),
        "interval with a condition": lambda: (
            lambda s: lambda: tg.interval_join(
                *s, by="k", where=left.x + right.x < 1.2, **NEAR
            ).num_rows
        )(tables(keys=20_000)),
        "interval by value": lambda: (
            lambda s: lambda: tg.interval_join(
                *s, on="ts", lower=-200, upper=200, where=left.v == right.v, threads=THREADS
            ).num_rows
        )(tables()),
        "interval in batches": lambda: (
            lambda s: lambda: sum(
                batch.num_rows for batch in tg.interval_join_batches(*s, by="k", **NEAR)
            )
        )(tables(keys=10_000)),
        "everything with everything": lambda: (
            lambda s: lambda: tg.interval_join(s, s, on="ts", lower=0, upper=0, by="k").num_rows
        )(one_key(100_000)),
        "more than any machine has": lambda: (
            lambda s: lambda: tg.interval_join(s, s, on="ts", lower=0, upper=0, by="k").num_rows
        )(one_key(1_000_000)),
        "long texts": lambda: (
            lambda a, b: lambda: tg.interval_join(a, b, on="ts", lower=0, upper=0).num_rows
        )(blobs(40, MIB), one_key(40)),
        "window of time": lambda: (
            lambda s: lambda: tg.window_join(
                *s, on="ts", by="k", window=50_000, threads=THREADS
            ).num_rows
        )(tables()),
        "window of rows": lambda: (
            lambda s: lambda: tg.window_join(
                *s, on="ts", by="k", window=rows(50_000), threads=THREADS
            ).num_rows
        )(tables()),
        "band": lambda: (
            lambda s: lambda: tg.band_join(*s, on="x", within=2e-6, threads=THREADS).num_rows
        )(tables()),
        "aggregate": lambda: (
            lambda s: lambda: tg.aggregate(
                s, on="ts", size=200_000, advance=50_000, by="k", aggs=SUMS, threads=THREADS
            ).num_rows
        )(tables()),
        "aggregate of text": lambda: (
            lambda s: lambda: tg.aggregate(
                s, on="ts", size=200_000, by="k", aggs=SUMS, threads=THREADS
            ).num_rows
        )(tables(text=True)),
        "sessions": lambda: (
            lambda s: lambda: tg.aggregate(
                s, on="ts", session=1000, by="k", aggs=SUMS, threads=THREADS
            ).num_rows
        )(tables()),
        "merge": lambda: (lambda s: lambda: tg.merge(s, threads=THREADS).num_rows)(
            tables(text=True)
        ),
        "IntervalJoin": lambda: (
            lambda s: lambda: read(tg.IntervalJoin(*s, by="k", **NEAR), s)
        )(tables()),
        "IntervalJoin of text": lambda: (
            lambda s: lambda: read(tg.IntervalJoin(*s, by="k", how="full", **NEAR), s)
        )(tables(text=True)),
        "WindowJoin": lambda: (
            lambda s: lambda: read(
                tg.WindowJoin(
                    *s, on="ts", window=2000, where=left.v == right.v, threads=THREADS
                ),
                s,
            )
        )(tables()),
        "BandJoin": lambda: (
            lambda s: lambda: read(
                tg.BandJoin(*s, on="x", within=1e-5, time="ts", window=100_000, threads=THREADS), s
            )
        )(tables()),
        "Aggregate": lambda: (
            lambda s: lambda: read(
                tg.Aggregate(
                    s[0], on="ts", size=200_000, advance=50_000, by="k", aggs=SUMS, sources=2
                ),
                s,
            )
        )(tables()),
        "Merge": lambda: (lambda s: lambda: read(tg.Merge(s[0], sources=2), s))(
            tables(text=True)
        ),
        "snapshot": lambda: (
            lambda s: lambda: snapshots(tg.IntervalJoin(*s, by="k", **NEAR), s)
        )(tables(text=True)),
    }


def size() -> int:
    """Bytes of addresses that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


SMALL = pa.table({"ts": [1, 2, 3], "k": [7, 8, 7]})


def small_join() -> str:
    """Join a few rows; `right` if the result is."""
    found = tg.interval_join(SMALL, SMALL, on="ts", by="k", lower=-2, upper=2)
    assert found.column("ts").to_pylist() == [1, 1, 2, 3, 3]
    assert found.column("ts_right").to_pylist() == [1, 3, 2, 1, 3]
    return "right"


def outcome(call: Callable[[], object]) -> dict[str, object]:
    """What comes of a call."""
    try:
        return {"result": call()}
    except (tg.TidegateError, MemoryError) as error:
        return {"error": type(error).__name__, "text": str(error)}


def main(kind: str, allowances: list[int]) -> None:
    """Try the kind with each allowance in MiB."""
    call = kinds()[kind]()
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
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(argument) for argument in sys.argv[2:]])
