"""Draw what `w4_designs.py` has measured: rates and latencies by inputs, a column a query.

python benches/w4_plot.py benches/results/w4_designs.json benches/plots/w4.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w4"  # equal figures are equal files
mpl.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]

ROWS = (("rows/s", 1e-6, "M rows/s"), ("latency_s", 1e3, "latency, ms"))


def main(source: str, target: str) -> None:
    """Draw all queries."""
    points: list[Point] = json.loads(Path(source).read_text())
    queries = list(dict.fromkeys(point["query"] for point in points))
    shape = {"squeeze": False, "sharex": True, "layout": "constrained"}
    figure, axes = plt.subplots(2, len(queries), figsize=(1.6 * len(queries) + 1, 4), **shape)
    for column, query in enumerate(queries):
        for row, (what, factor, label) in enumerate(ROWS):
            panel = axes[row][column]
            for design in dict.fromkeys(point["design"] for point in points):
                shown = [p for p in points if (p["query"], p["design"]) == (query, design)]
                shown = [point for point in shown if point[what] is not None]
                values = [factor * point[what] for point in shown]
                panel.plot([point["inputs"] for point in shown], values, marker=".", label=design)
            panel.set_yscale("log")
            panel.minorticks_off()
            panel.tick_params(labelsize=6)
            if column == 0:
                panel.set_ylabel(label, fontsize=8)
        axes[0][column].set_title(query, fontsize=8)
        axes[1][column].set_xlabel("inputs", fontsize=7)
    axes[0][-1].legend(fontsize=5)
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
