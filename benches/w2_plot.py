"""Draws figures 8 to 13 of the PIM-Tree paper from the measurements of the benches.

`cargo bench -p tidegate-benches --bench w2_figures -- ...` writes points as JSON, one per line.
Each figure in the input gets a panel.

python benches/w2_plot.py benches/plots/w2.svg benches/out/w2_figures.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w2"  # equal data gives equal files

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]

RATE = "M rows/s"
STEPS = ("insert ns", "find ns", "remove ns")
COLUMNS = 4
# The varied parameter of each figure, and whether it is a power of two.
AXES = {
    "round-robin": ("trees", True),
    "chain": ("indexes of a chain", True),
    "depth": ("insertion depth", False),
    "merge-ratio": ("merge ratio", True),
    "matches": ("matches a row", True),
    "drift": ("drift per window, as a share of the range", False),
    "window": ("rows of a window", True),
    "memory": ("rows of a window", True),
    "task-size": ("rows of a task", True),
    "latency": ("rows of a task", True),
    "threads": ("threads", False),
}
# Panels that show a value other than a rate, from another figure's points.
OTHERS = {"memory": ("window", "bytes a row"), "latency": ("task-size", "us")}


def lines(axes: Any, name: str, points: list[Point], measured: str) -> None:  # noqa: ANN401 - untyped library
    """Draw the values of every series over the varied parameter."""
    label, is_power = AXES[name]
    for series in dict.fromkeys(point["series"] for point in points):
        own = [point for point in points if point["series"] == series]
        x, y = ([point[of] for point in own] for of in ("x", measured))
        axes.plot(x, y, marker="o", markersize=3, label=series)
    if is_power:
        axes.set_xscale("log", base=2)
    if max(point[measured] for point in points) > 8 * min(point[measured] for point in points):
        axes.set_yscale("log")
    else:
        axes.set_ylim(0)
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylabel({"us": "µs until results"}.get(measured, measured), fontsize=8)
    axes.legend(fontsize=6)


def steps(axes: Any, points: list[Point]) -> None:  # noqa: ANN401 - untyped library
    """Draw stacked bars of the cost of each step."""
    names = [point["series"] for point in points]
    below = [0.0] * len(names)
    for step in STEPS:
        took = [point[step] for point in points]
        axes.bar(names, took, bottom=below, label=step.removesuffix(" ns"))
        below = [under + own for under, own in zip(below, took, strict=True)]
    axes.tick_params(axis="x", rotation=60)
    axes.set_ylabel("ns a row", fontsize=8)
    axes.legend(fontsize=6)


def main(target: str, source: str) -> None:
    """Draw one panel per figure."""
    points: list[Point] = [json.loads(line) for line in Path(source).read_text().splitlines()]
    found = {point["figure"] for point in points}
    panels = [name for name in ("steps", *AXES) if OTHERS.get(name, (name,))[0] in found]
    rows = -(-len(panels) // COLUMNS)
    figure, all_axes = plt.subplots(
        rows, COLUMNS, figsize=(3.2 * COLUMNS, 2.9 * rows), layout="constrained", squeeze=False
    )
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, name in zip(all_axes.flat, panels, strict=False):
        of, measured = OTHERS.get(name, (name, RATE))
        own = [point for point in points if point["figure"] == of]
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        if name == "steps":
            steps(axes, own)
        else:
            lines(axes, name, own, measured)
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
