"""Draws the claims of the README: the times of other forms, as multiples of tidegate's time.

Each row of the table has a question, a form that answers it, and the lowest and highest of the
medians from several machines. `kind` specifies who would write the form: an `expert` for speed,
most users at first (`plain`), or `both`. A form without a highest multiple was stopped. `words` is
the line of BENCHMARKS.md that contains the figures; tests/python/test_published.py compares them.

python benches/claims_plot.py docs/speed.csv docs/speed.svg
"""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path

Line = dict[str, str]

WIDTH = 800
BEGIN = 290  # start of the bars; their labels are on the left
UNIT = 22  # length of tidegate's bar
LONGEST = 20  # maximum length; longer bars are cut
HEIGHT = 16
STEP = 24
TOP = 58
COLOURS = {"tidegate": "#1f5fa8", "expert": "#b3541e", "plain": "#8a8a8a", "both": "#b3541e"}
LEGEND = [
    ("tidegate", "tidegate"),
    ("expert", "as an expert writes it for speed"),
    ("plain", "as one writes it first"),
]
TITLE = "How long other forms take, as a multiple of tidegate's time"
STYLE = """  <style>
    text { font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #222222; }
    .question { font-weight: 600; }
    .note { fill: #6b6b6b; font-size: 13px; }
    .inside { fill: #ffffff; }
  </style>"""


def multiple(line: Line) -> str:
    """Return the figure of a row, in the format of BENCHMARKS.md."""
    if not line["high"]:
        return f"more than {line['low']}x"
    if line["low"] == line["high"]:
        return f"{line['low']}x"
    return f"{line['low']} to {line['high']}x"


def text(x: float, y: float, what: str, of: str = "", anchor: str = "start") -> str:
    """Return an SVG element with text."""
    return f'  <text x="{x:g}" y="{y:g}" class="{of}" text-anchor="{anchor}">{what}</text>'


def box(x: float, y: float, width: float, colour: str, opacity: float = 1) -> str:
    """Return a bar."""
    shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}"'
    return f'  <rect {shape} fill="{colour}" fill-opacity="{opacity:g}"/>'


def bar(line: Line, y: float) -> list[str]:
    """Return a labelled bar, whose part between the lowest and highest multiple is lighter."""
    low, high = float(line["low"]), float(line["high"] or line["low"])
    colour = COLOURS[line["kind"]]
    drawn = [text(BEGIN - 10, y + 13, line["form"], "note", "end")]
    if high > LONGEST:
        length = LONGEST * UNIT
        drawn.append(box(BEGIN, y, length, colour))
        gap = BEGIN + length - 30
        points = f"{gap},{y + HEIGHT + 1} {gap + 8},{y - 1} {gap + 14},{y - 1}"
        points += f" {gap + 6},{y + HEIGHT + 1}"
        drawn.append(f'  <polygon points="{points}" fill="#ffffff"/>')
        drawn.append(text(gap - 10, y + 13, multiple(line), "inside", "end"))
        return drawn
    drawn.append(box(BEGIN, y, low * UNIT, colour))
    if high > low:
        drawn.append(box(BEGIN + low * UNIT, y, (high - low) * UNIT, colour, 0.45))
    drawn.append(text(BEGIN + high * UNIT + 8, y + 13, multiple(line)))
    return drawn


def told(lines: list[Line]) -> str:
    """Return a description of the chart for readers who cannot see it."""
    return "; ".join(f"{line['question']}: {line['form']}, {multiple(line)}" for line in lines)


def drawing(lines: list[Line]) -> str:
    """Return the chart as SVG."""
    drawn: list[str] = []
    y = TOP
    for question, forms in groupby(lines, lambda line: line["question"]):
        drawn += ["", text(20, y + 13, question, "question")]
        y += STEP
        ours = {"form": "tidegate", "kind": "tidegate", "low": "1", "high": "1"}
        for line in [ours, *forms]:
            drawn += bar(line, y)
            y += STEP
        y += STEP // 3
    x = 20
    legend = []
    for kind, words in LEGEND:
        legend += [box(x, 18, HEIGHT, COLOURS[kind]), text(x + 22, 31, words)]
        x += 60 + 7 * len(words)
    size = f'width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img"'
    edge = f'x="0.5" y="0.5" width="{WIDTH - 1}" height="{y - 1}" rx="8"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} aria-labelledby="title desc">',
            f'  <title id="title">{TITLE}</title>',
            f'  <desc id="desc">{told(lines)}.</desc>',
            STYLE,
            f'  <rect {edge} fill="#ffffff" stroke="#d0d7de"/>',
            *legend,
            *drawn,
            "</svg>",
            "",
        ]
    )


def read(table: Path) -> list[Line]:
    """Return the rows of the table."""
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(table: str, target: str) -> None:
    """Draw the table."""
    Path(target).write_text(drawing(read(Path(table))), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
