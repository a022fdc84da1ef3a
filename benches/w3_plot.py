"""Draws the measurements of `w3.py streams`, and the figures from the papers' machines.

python benches/w3_plot.py benches/out/w3_streams.json benches/plots/w3.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w3"  # equal data gives equal files

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]

# ScaleJoin, section VI and Figure 5: 48 cores; Low-Latency Handshake Join, Table 2: 40 cores.
SCALEJOIN_G = 4.0
SCALEJOIN_ROWS = {"5 min": 5_100, "10 min": 3_500, "15 min": 3_000}
HANDSHAKE_ROWS = {"15 min": 5_125}


def comparisons(axes: Any, points: list[Point]) -> None:  # noqa: ANN401 - untyped library
    """Draw bars of comparisons per second by algorithm and threads, for the first window length."""
    window = points[0]["window"]
    shown = [point for point in points if point["window"] == window]
    names = [f"{point['algorithm']}, {point['threads']}" for point in shown]
    axes.bar(range(len(shown)), [point["G comparisons/s"] for point in shown])
    axes.set_xticks(range(len(shown)), names, fontsize=7, rotation=60, ha="right")
    axes.axhline(SCALEJOIN_G, color="black", linestyle=":")
    axes.text(0, SCALEJOIN_G * 1.05, "ScaleJoin's paper, 48 cores", fontsize=7, va="bottom")
    axes.set_xlabel(f"algorithm and threads ({window} windows)")
    axes.set_ylabel("G comparisons/s")


def rows(axes: Any, points: list[Point]) -> None:  # noqa: ANN401 - untyped library
    """Draw lines of sustainable rows per second for both sides, by window length."""
    windows = list(dict.fromkeys(point["window"] for point in points))
    for threads in sorted({point["threads"] for point in points}):
        found = [
            point["rows/s sustained"]
            for window in windows
            for point in points
            if (point["window"], point["algorithm"], point["threads"])
            == (window, "scalejoin", threads)
        ]
        axes.plot(windows, found, marker="o", label=f"scalejoin, {threads} threads")
    for name, paper in (("ScaleJoin's", SCALEJOIN_ROWS), ("handshake join's", HANDSHAKE_ROWS)):
        known = [window for window in windows if window in paper]
        label = f"{name} paper"
        axes.plot(known, [paper[window] for window in known], "k:", marker="x", label=label)
    axes.set_ylim(0)
    axes.set_xlabel("windows")
    axes.set_ylabel("rows/s of both sides")
    axes.legend(fontsize=7)


def main(source: str, target: str) -> None:
    """Draw both panels."""
    points: list[Point] = json.loads(Path(source).read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    comparisons(left, points)
    rows(right, points)
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
