"""Draw what `w2_streams.py` has measured, as figures 8 to 13 of the paper on PIM-Trees show it.

One panel a file: lines of the algorithms over what the file varies, which is the first of threads,
matches a row and windows that has several values; bars if nothing has.

python benches/w2_plot.py benches/plots/w2.svg benches/results/w2_*.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w2"  # equal figures are equal files

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]

RATE = "M rows/s"
VARIED = ("threads", "matches", "w")


def panel(axes: Any, name: str, points: list[Point]) -> None:  # noqa: ANN401 - untyped library
    """Rates of every algorithm."""
    algorithms = list(dict.fromkeys(point["algorithm"] for point in points))
    varied = next((by for by in VARIED if len({point[by] for point in points}) > 1), None)
    axes.set_title(f"{name}: {points[0]['values']}", fontsize=8)
    axes.set_ylabel(f"{RATE} of both sides", fontsize=8)
    axes.tick_params(labelsize=7)
    if varied is None:
        axes.bar(algorithms, [point[RATE] for point in points])
        axes.tick_params(axis="x", rotation=60)
        return
    for algorithm in algorithms:
        own = [point for point in points if point["algorithm"] == algorithm]
        x, y = ([point[of] for point in own] for of in (varied, RATE))
        axes.plot(x, y, marker="o", markersize=3, label=algorithm)
    if varied != "threads":
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    axes.set_xlabel({"w": "rows of a window", "matches": "matches a row"}.get(varied, varied))
    axes.legend(fontsize=6)


def main(target: str, *sources: str) -> None:
    """Draw a panel for each file."""
    figure, all_axes = plt.subplots(
        1, len(sources), figsize=(3.4 * len(sources), 3.4), layout="constrained", squeeze=False
    )
    for axes, source in zip(all_axes[0], sources, strict=True):
        name = Path(source).stem.removeprefix("w2_")
        panel(axes, name, json.loads(Path(source).read_text()))
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
