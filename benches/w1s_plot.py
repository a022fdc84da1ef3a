"""Draw what `w1s.py` has measured: rates by number of keys, and balance by skew.

    python benches/w1s_plot.py benches/results/w1s-throughput.json \
        benches/results/w1s-load.json benches/plots/w1s.svg

Both inputs are written by `w1s.py throughput` and `w1s.py load`.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w1s"  # equal figures are equal files

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]
MODES = ("key", "hybrid", "data", "auto")


def rates(axes: Any, points: list[Point], threads: int) -> None:  # noqa: ANN401 - untyped library
    """Bars: millions of rows a second, for each number of keys and mode."""
    keys = sorted({point["keys"] for point in points})
    for at, mode in enumerate(MODES):
        heights = [
            point["rows"] / statistics.median(point["seconds"]) / 1e6
            for key in keys
            for point in points
            if (point["keys"], point["mode"], point["threads"]) == (key, mode, threads)
        ]
        places = [place + 0.2 * (at - 1.5) for place in range(len(keys))]
        axes.bar(places, heights, 0.2, label=mode)
    axes.set_xticks(range(len(keys)), [str(key) for key in keys])
    axes.set_xlabel(f"keys (uniform, {threads} threads)")
    axes.set_ylabel("M rows/s of both sides")
    axes.legend()


def balance(axes: Any, points: list[Point], keys: int) -> None:  # noqa: ANN401 - untyped library
    """Lines: the busiest replica over the mean, for each skew and mode, of most replicas."""
    replicas = max(point["threads"] for point in points)
    skews = sorted({point["skew"] for point in points} - {"uniform"}, key=float)
    for mode in MODES:
        heights = [
            max(point["comparisons"]) / statistics.mean(point["comparisons"])
            for skew in skews
            for point in points
            if (point["skew"], point["keys"], point["mode"], point["threads"])
            == (skew, keys, mode, replicas)
        ]
        axes.plot(skews, heights, marker="o", label=mode)
    axes.set_xlabel(f"skew s ({keys} keys, {replicas} replicas)")
    axes.set_ylabel("comparisons: busiest / mean")
    axes.set_ylim(bottom=0)
    axes.legend()


def main() -> None:
    """Read both files and draw."""
    throughput, load, out = map(Path, sys.argv[1:])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    rates(left, json.loads(throughput.read_text()), threads=2)
    balance(right, json.loads(load.read_text()), keys=50)
    out.parent.mkdir(exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main()
