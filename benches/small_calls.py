"""Measures small calls: an as-of join of few rows with tidegate, Polars and pandas.

The forms take turns. In each round, each form has a fresh process, which imports its library, makes
one call, and then repeats the call. Each form is first checked to return the right values. The
script prints a Markdown table.

    python benches/small_calls.py --rows 10,1000 --rounds 5
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = ("tidegate, Arrow", "tidegate, pandas", "polars", "pandas")
REPEATS = {10: 2000, 1000: 500}


def columns(rows: int, seed: int) -> dict[str, Any]:
    """Return sorted times, keys and values; right times all differ from left ones."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.choice(10 * rows, rows, replace=False)) * 2 + seed % 2
    return {"ts": ts, "k": random.integers(0, 3, rows), f"v{seed}": random.random(rows)}


def call_of(form: str, left: dict[str, Any], right: dict[str, Any]) -> Callable[[], Any]:
    """Return the call of a form."""
    if form == "polars":
        pl = importlib.import_module("polars")
        one, two = pl.DataFrame(left).set_sorted("ts"), pl.DataFrame(right).set_sorted("ts")
        return lambda: one.join_asof(two, on="ts", by="k", check_sortedness=False)
    if form == "pandas":
        pd = importlib.import_module("pandas")
        one, two = pd.DataFrame(left), pd.DataFrame(right)
        return lambda: pd.merge_asof(one, two, on="ts", by="k")
    tg = importlib.import_module("tidegate")
    library = importlib.import_module("pandas" if form.endswith("pandas") else "pyarrow")
    table = library.DataFrame if form.endswith("pandas") else library.table
    one, two = table(left), table(right)
    return lambda: tg.asof_join(one, two, on="ts", by="k")


def values_of(result: Any) -> list[float]:  # noqa: ANN401 - a frame of any library
    """Return the right values of a result, and NaN for rows without a match."""
    column = result["v2"]
    listed = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    return [float("nan") if one is None else one for one in listed]


def expected(left: dict[str, Any], right: dict[str, Any]) -> list[float]:
    """Return the last right value of each left row's key, by a plain loop."""
    found = []
    for ts, key in zip(left["ts"], left["k"], strict=True):
        matches = right["v2"][(right["k"] == key) & (right["ts"] <= ts)]
        found.append(matches[-1] if len(matches) else float("nan"))
    return found


def measure(form: str, rows: int) -> dict[str, float]:
    """Return the seconds of the first call and of a warm one."""
    left, right = columns(rows, 1), columns(rows, 2)
    call = call_of(form, left, right)
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    np.testing.assert_array_equal(values_of(result), expected(left, right))
    seconds = []
    for _ in range(REPEATS.get(rows, 200)):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return {"first": first, "warm": statistics.median(seconds)}


def main() -> None:
    """Measure all forms in turns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="10,1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child[0], int(given.child[1]))))
        return
    sizes = [int(rows) for rows in given.rows.split(",")]
    found: dict[tuple[int, str], list[dict[str, float]]] = {}
    for _ in range(given.rounds):
        for rows in sizes:
            for form in FORMS:
                child = [sys.executable, __file__, "--child", form, str(rows)]
                done = subprocess.run(child, check=True, capture_output=True, text=True)  # noqa: S603 - this file
                found.setdefault((rows, form), []).append(json.loads(done.stdout))
    print("| rows per side | form | first call, us | warm call, us |\n| --: | --- | --: | --: |")
    for (rows, form), rounds in found.items():
        cells = [_spread([1e6 * one[kind] for one in rounds]) for kind in ("first", "warm")]
        print(f"| {rows:,} | {form} | {' | '.join(cells)} |")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


if __name__ == "__main__":
    main()
