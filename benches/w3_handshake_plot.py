"""Draws the handshake joins by number of nodes, like the figures of the paper.

cargo bench -p tidegate-benches --bench handshake -- figures > benches/out/handshake.json
python benches/w3_handshake_plot.py benches/out/handshake.json benches/plots/w3_handshake.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w3_handshake"  # equal data gives equal files

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

Point = dict[str, Any]

FORMS = ("handshake", "handshake, in order", "low latency", "low latency, in order")
LOOKED_UP = ("low latency, ordered index", "low latency, equal x, hash index")


def lines(axes: Any, points: list[Point], forms: tuple[str, ...], value: str) -> None:  # noqa: ANN401 - untyped library
    """Draw one line per form, by number of nodes."""
    for form in forms:
        shown = [point for point in points if point["form"] == form and value in point]
        nodes = [point["nodes"] for point in shown]
        axes.plot(nodes, [point[value] for point in shown], marker="o", markersize=3, label=form)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("nodes, on two threads")
    axes.legend(fontsize=6)


def main(source: str, target: str) -> None:
    """Draw all panels."""
    points: list[Point] = [json.loads(line) for line in Path(source).read_text().splitlines()]
    rates = [point for point in points if point["figure"] == "rate"]
    latencies = [point for point in points if point["figure"] == "latency"]
    figure, panels = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for axes, (chosen, forms, value, label) in zip(
        panels.flat,
        (
            (rates, FORMS + LOOKED_UP, "rows/s", "rows/s of both sides (Figure 17, Table 2)"),
            (latencies, FORMS, "mean", "mean latency, ms (Figure 18)"),
            (latencies, FORMS, "most", "maximum latency, ms (Figures 5 and 20)"),
            (rates, (FORMS[1], FORMS[3]), "waiting", "most waiting results (Figure 21)"),
        ),
        strict=True,
    ):
        lines(axes, chosen, forms, value)
        axes.set_ylabel(label)
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
