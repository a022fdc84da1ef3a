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

WIDTH = 520  # narrow, so that the text is legible on a phone
BEGIN = 20  # start of the bars
UNIT = 18  # length of tidegate's bar
LONGEST = 20  # maximum length; longer bars are cut
HEIGHT = 16
STEP = 20
TOP = 52
LEGEND = [
    ("tidegate", "tidegate"),
    ("expert", "tuned by an expert"),
    ("plain", "as first written"),
]
TITLE = "How long other forms take, as a multiple of tidegate's time"
STYLE = """  <style>
    text { font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #222222; }
    .question { font-weight: 600; }
    .note { fill: #555555; }
    .inside { fill: #ffffff; }
    .tidegate { fill: #1f5fa8; }
    .expert, .both { fill: #b3541e; }
    .plain { fill: #767676; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6e6e6; }
      [fill="#ffffff"] { fill: #16181d; }
      [stroke="#d0d7de"] { stroke: #3d444d; }
      .note { fill: #b4b4b4; }
      .tidegate { fill: #6aa5e8; }
      .expert, .both { fill: #e58a52; }
    }
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


def box(x: float, y: float, width: float, of: str, opacity: float = 1) -> str:
    """Return a bar."""
    shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}"'
    return f'  <rect {shape} class="{of}" fill-opacity="{opacity:g}"/>'


def broken(line: Line, y: float) -> list[str]:
    """Return a bar that is cut, with a gap near its end."""
    length = LONGEST * UNIT
    gap = BEGIN + length - 30
    points = f"{gap},{y + HEIGHT + 1} {gap + 8},{y - 1} {gap + 14},{y - 1}"
    points += f" {gap + 6},{y + HEIGHT + 1}"
    return [
        box(BEGIN, y, length, line["kind"]),
        f'  <polygon points="{points}" fill="#ffffff"/>',
        text(gap - 10, y + 13, multiple(line), "inside", "end"),
    ]


def bar(line: Line, y: float) -> list[str]:
    """Return a labelled bar, whose part between the lowest and highest multiple is lighter."""
    low, high = float(line["low"]), float(line["high"] or line["low"])
    if high > LONGEST:
        return broken(line, y)
    drawn = [box(BEGIN, y, low * UNIT, line["kind"])]
    if high > low:
        drawn.append(box(BEGIN + low * UNIT, y, (high - low) * UNIT, line["kind"], 0.45))
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
        drawn += [
            "",
            text(BEGIN, y + 13, question, "question"),
            box(BEGIN, y + STEP, UNIT, "tidegate"),
        ]
        drawn.append(text(BEGIN + UNIT + 8, y + STEP + 13, "tidegate, 1x"))
        y += 2 * STEP
        for line in forms:
            drawn += [text(BEGIN, y + 14, line["form"], "note"), *bar(line, y + STEP)]
            y += 2 * STEP + 2
        y += STEP // 2
    x = BEGIN
    legend = []
    for kind, words in LEGEND:
        legend += [box(x, 18, HEIGHT, kind), text(x + 22, 31, words)]
        x += 52 + 8 * len(words)
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
