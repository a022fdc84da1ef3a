"""Draws the memory of the processes of `larger_than_memory.py` over time.

    python benches/larger_than_memory_plot.py benches/out/larger_than_memory.json \
        benches/plots/larger_than_memory.svg

`larger_than_memory.py` writes the input, and also calls this module to draw it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "larger than memory"  # equal data gives equal files
mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of what draws


def draw(findings: dict[str, Any], out: Path) -> None:
    """Draw one line per system, for its first run."""
    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    seen = set()
    for one in findings["results"]:
        if one["system"] in seen or not one["samples"]:
            continue
        seen.add(one["system"])
        times, sizes = zip(*one["samples"], strict=True)
        label = one["system"] if "rows" in one else f"{one['system']} (did not end)"
        axes.plot(times, [size / 1e9 for size in sizes], label=label, linewidth=1)
    axes.axhline(findings["limit"] / 1e9, color="gray", linestyle=":", linewidth=1)
    axes.annotate(
        "memory limit",
        (0.99, findings["limit"] / 1e9),
        xycoords=axes.get_yaxis_transform(),
        ha="right",
        va="top",
        color="gray",
    )
    axes.set_xlabel("seconds")
    axes.set_ylabel("memory of the process, GB")
    axes.set_ylim(bottom=0)
    made = findings["made"]
    axes.set_title(f"A join of {made['bytes'] / 1e9:.1f} GB of Parquet files", loc="left")
    axes.legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
