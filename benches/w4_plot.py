"""Draws the results of `w4_designs.py`: rates and latencies by inputs, one column per query.

With `--rates`, it instead draws latencies at given rates, with one column per query, and rows for
the median and the 99th percentile.

python benches/w4_plot.py benches/out/w4_designs.json benches/plots/w4.svg
python benches/w4_plot.py benches/out/w4_rates.json benches/plots/w4_rates.svg --rates
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w4"  # equal data gives equal files
mpl.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]

ROWS = (("rows/s", 1e-6, "M rows/s"), ("latency_s", 1e3, "latency, ms"))
LATENCIES = (("median_s", 1e3, "median, ms"), ("p99_s", 1e3, "99 %, ms"))
HELD = (
    0.97  # share of a rate that has to be reached; below it, rows pile up and latency is unbounded
)


def curve(points: list[Point], query: str, design: str, what: str) -> list[tuple[float, float]]:
    """Return a value of a design by number of inputs."""
    chosen = [point for point in points if (point["query"], point["design"]) == (query, design)]
    return [(point["inputs"], point[what]) for point in chosen if point[what] is not None]


def curve_of_rates(
    points: list[Point], query: str, design: str, what: str
) -> list[tuple[float, float]]:
    """Return a value of a design by rate, for the rates that were reached."""
    chosen = [point for point in points if (point["query"], point["design"]) == (query, design)]
    rates = [rate for point in chosen for rate in point["rates"]]
    return [(one["rate"] / 1e6, one[what]) for one in rates if one["reached"] >= HELD * one["rate"]]


def main(source: str, target: str, *options: str) -> None:
    """Draw all queries."""
    points: list[Point] = json.loads(Path(source).read_text())
    rates = options == ("--rates",)
    rows, find, along = (
        (LATENCIES, curve_of_rates, "M rows/s") if rates else (ROWS, curve, "inputs")
    )
    queries = list(dict.fromkeys(point["query"] for point in points))
    width = (2.4 if rates else 1.6) * len(queries) + 1
    figure, axes = plt.subplots(
        2, len(queries), figsize=(width, 4), squeeze=False, sharex=True, layout="constrained"
    )
    for column, query in enumerate(queries):
        for row, (what, factor, label) in enumerate(rows):
            panel = axes[row][column]
            for design in dict.fromkeys(point["design"] for point in points):
                found = find(points, query, design, what)
                places, values = [x for x, _ in found], [factor * y for _, y in found]
                panel.plot(places, values, marker=".", label=design)
            if rates:
                panel.set_ylim(bottom=0)
            else:
                panel.set_yscale("log")
                panel.minorticks_off()
            panel.tick_params(labelsize=6)
            if column == 0:
                panel.set_ylabel(label, fontsize=8)
        axes[0][column].set_title(query, fontsize=8)
        axes[1][column].set_xlabel(along, fontsize=7)
    axes[0][-1].legend(fontsize=5)
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
