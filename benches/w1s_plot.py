"""Draws the measurements of `w1s.py`: rates by keys, skew and interval, latencies, balance.

    python benches/w1s_plot.py benches/out/w1s-throughput.json benches/out/w1s-skew.json \
        benches/out/w1s-stock.json benches/out/w1s-latency.json \
        benches/out/w1s-load.json benches/plots/w1s.svg

`w1s.py` writes the inputs: `throughput`, `throughput --keys 50 --skew 0.2,0.3,0.4,0.5`,
`stock`, `latency` and `load --skew uniform,0.2,0.3,0.4,0.5`.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "w1s"  # equal data gives equal files
mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws

if TYPE_CHECKING:
    from collections.abc import Callable

Point = dict[str, Any]
MODES = ("key", "hybrid", "data", "auto")
THREADS = 2
KEYS = 50


def rate(point: Point) -> float:
    """Return millions of rows per second for both sides, in the fastest run."""
    return float(point["rows"] / min(point["seconds"]) / 1e6)


def high_latency(point: Point) -> float:
    """Return the 99th percentile in milliseconds."""
    return float(point["latency_s"][1] * 1e3)


def load_factor(point: Point) -> float:
    """Return the comparisons of the busiest replica, divided by their mean."""
    return float(max(point["comparisons"]) / statistics.mean(point["comparisons"]))


def bars(
    axes: Any,  # noqa: ANN401 - untyped library
    points: list[Point],
    what: str,
    label: str,
    value_of: Callable[[Point], float] = rate,
) -> None:
    """Draw groups of bars by `what`, with the rate or another value of each mode."""
    points = [point for point in points if point["threads"] == THREADS]
    values = list(dict.fromkeys(point[what] for point in points))
    for at, mode in enumerate(MODES):
        of_mode = {point[what]: value_of(point) for point in points if point["mode"] == mode}
        places = [place + 0.2 * (at - 1.5) for place in range(len(values))]
        axes.bar(places, [of_mode[value] for value in values], 0.2, label=mode)
    axes.set_xticks(range(len(values)), [str(value) for value in values])
    axes.set_xlabel(label)
    axes.set_ylabel("M rows/s of both sides" if value_of is rate else "p99 latency, ms")


def lines(axes: Any, points: list[Point], what: str, label: str) -> None:  # noqa: ANN401 - untyped library
    """Draw one line per mode: balance by `what`."""
    for mode in MODES:
        of_mode = [point for point in points if point["mode"] == mode]
        axes.plot(
            [str(point[what]) for point in of_mode],
            [load_factor(point) for point in of_mode],
            marker="o",
            label=mode,
        )
    axes.set_xlabel(label)
    axes.set_ylabel("comparisons: busiest / mean")
    axes.set_ylim(bottom=0)


def main() -> None:
    """Read the files and draw the panels."""
    *inputs, out = map(Path, sys.argv[1:])
    throughput, skewed, stock, latency, load = (json.loads(path.read_text()) for path in inputs)
    load = [point for point in load if point["keys"] == KEYS]
    replicas = max(point["threads"] for point in load)
    figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
    bars(axes[0][0], throughput, "keys", f"keys, uniform, {THREADS} threads")
    of_keys = [point for point in skewed if point["keys"] == KEYS]
    bars(axes[0][1], of_keys, "skew", f"skew s, {KEYS} keys, {THREADS} threads")
    bars(axes[0][2], stock, "skew", f"stock data by interval, {THREADS} threads")
    of_most = [point for point in load if point["threads"] == replicas]
    lines(axes[1][0], of_most, "skew", f"skew s, {KEYS} keys, {replicas} replicas")
    of_skew = [point for point in load if point["skew"] == "0.3"]
    lines(axes[1][1], of_skew, "threads", f"replicas, {KEYS} keys, skew 0.3")
    label = f"keys, uniform, {THREADS} threads, half of the peak rate"
    bars(axes[1][2], latency, "keys", label, high_latency)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    out.parent.mkdir(exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main()
