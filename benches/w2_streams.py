"""Measures workload W2 as defined: live band joins over count windows, by index.

Rows of R and S alternate. Each row is paired with rows within d among the last w rows of the other
side, two on average. `x` is uniform int32, or distributed around a mean that moves by a tenth of
the range per window (`--values drifting`). Windows are filled first. Then the whole `BandJoin` is
timed, from the push of chunks to the last result batch. The script prints Markdown and writes it,
with every figure as JSON, to benches/out/.

    python benches/w2_streams.py --windows 65536,1048576 --threads 1,2
    python benches/w2_streams.py --matches 0.0625,1,16,256 --algorithms buckets,pim-tree,bplus-tree
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

import tidegate
from w3 import markdown

if TYPE_CHECKING:
    from tidegate.types import BandAlgorithm

HERE = Path(__file__).parent
SEED = 42
RANGE = 2.0**32
ALGORITHMS = (
    "buckets,pim-tree,im-tree,bplus-tree,b-chain,ib-chain,round-robin,ibwj,ibwj-blocking,"
    "ibwj-bplus-tree"
)

Row = dict[str, object]


def values(random: np.random.Generator, kind: str, first: int, rows: int, window: int) -> pa.Array:
    """Return the values of some rows of a side, after `first` earlier rows."""
    if kind == "uniform":
        return pa.array(random.integers(-(2**31), 2**31, rows, dtype=np.int64))
    drawn = random.normal(size=rows) * RANGE / 8
    if kind == "drifting":
        drawn += np.arange(first, first + rows) / window * RANGE / 10
    return pa.array(drawn.astype(np.int64))


def distance(kind: str, window: int, matches: float) -> int:
    """Return the maximum distance between values for a number of matches per row."""
    density = 1 / RANGE if kind == "uniform" else 1 / (2 * math.sqrt(math.pi) * RANGE / 8)
    return max(0, round(matches / (2 * density * window)))


@dataclasses.dataclass(frozen=True)
class Case:
    """A measured case."""

    algorithm: BandAlgorithm
    threads: int
    window: int
    kind: str
    matches: float


class Load:
    """A join and its input rows, which are pushed in chunks per side.

    `of_one` joins a stream with itself, so its windows contain rows of only one side.
    """

    def __init__(
        self,
        case: Case,
        piece: int,
        settings: dict[str, float] | None = None,
        *,
        of_one: bool = False,
    ) -> None:
        """Create a join; `settings` configures the index, and None means the defaults."""
        self.random = np.random.Generator(np.random.PCG64(SEED))
        self.window, self.kind, self.piece, self.came = case.window, case.kind, piece, 0
        schema = pa.schema([("n", pa.int64()), ("x", pa.int64())])
        self.join = tidegate.BandJoin(
            schema,
            None if of_one else schema,
            on="x",
            within=distance(case.kind, case.window, case.matches),
            time="n",
            window=tidegate.rows(case.window),
            algorithm=case.algorithm,
            settings=settings,
            threads=case.threads,
        )

    def pieces(self, rows: int) -> list[list[pa.Table]]:
        """Prepare a number of rows per side."""
        made = []
        for first in range(self.came, self.came + rows, self.piece):
            numbers = np.arange(first, first + self.piece)
            sides = (
                values(self.random, self.kind, first, self.piece, self.window)
                for _ in self.join.sources
            )
            made.append([pa.table({"n": numbers, "x": side}) for side in sides])
        self.came += len(made) * self.piece
        return made

    def run(self, pieces: list[list[pa.Table]]) -> tuple[float, list[float], int]:
        """Push and poll; return total seconds, seconds per chunk, and result rows."""
        start, took, found = time.perf_counter(), [], 0
        for piece in pieces:
            begin = time.perf_counter()
            for source, rows in zip(self.join.sources, piece, strict=True):
                source.push(rows)
            while (batch := self.join.poll()) is not None:
                found += batch.num_rows
            took.append(time.perf_counter() - begin)
        return time.perf_counter() - start, took, found


def measure(case: Case, options: argparse.Namespace) -> Row:
    """Fill the windows, and time the rows after that."""
    load = Load(case, options.piece)
    load.run(load.pieces(case.window))
    rates: list[float] = []
    pieces: list[float] = []
    found = rows = 0
    for _ in range(options.repeat):
        more = load.pieces(options.rows // 2)
        seconds, took, pairs = load.run(more)
        rates.append(2 * len(more) * options.piece / seconds / 1e6)
        pieces += took
        found, rows = found + pairs, rows + 2 * len(more) * options.piece
    stats = load.join.stats()
    load.join.close()
    return {
        "algorithm": case.algorithm,
        "w": case.window,
        "values": case.kind,
        "matches": round(found / rows, 3),
        "threads": case.threads,
        "M rows/s": round(statistics.median(rates), 2),
        "p99 ms per push": round(float(np.percentile(pieces, 99)) * 1000, 2),
        "bytes a kept row": round(stats["state_bytes"] / stats["state_rows"], 1),
        "merges": stats["merges"],
    }


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--algorithms", default=ALGORITHMS, help="comma-separated")
    add("--windows", default="65536,1048576", help="window sizes, comma-separated")
    add("--values", default="uniform", help="uniform, gaussian or drifting, comma-separated")
    add("--matches", default="2", help="matches per row, comma-separated")
    add("--threads", default="1,2", help="thread counts, comma-separated")
    add("--rows", type=int, default=1 << 20, help="rows of both sides per timed run")
    add("--piece", type=int, default=1 << 14, help="rows per side and push")
    add("--repeat", type=int, default=3, help="timed runs; the median counts")
    add("--name", default="streams", help="name of the result files")
    options = parser.parse_args()
    results = []
    cases = itertools.product(
        map(int, options.windows.split(",")),
        options.values.split(","),
        map(float, options.matches.split(",")),
        options.algorithms.split(","),
        map(int, options.threads.split(",")),
    )
    for window, kind, matches, name, threads in cases:
        algorithm = cast("BandAlgorithm", name)
        row = measure(Case(algorithm, threads, window, kind, matches), options)
        print(row, file=sys.stderr, flush=True)
        results.append(row)
    text = markdown(results)
    print(text)
    found = HERE / "out"
    found.mkdir(exist_ok=True)
    (found / f"w2_{options.name}.md").write_text(text)
    (found / f"w2_{options.name}.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
