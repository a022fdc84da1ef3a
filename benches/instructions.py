"""Measures W1 to W5 with narrower vector instructions than the processor supports.

Processes of `scaling.py` run a query with the instruction set that `TIDEGATE_SIMD` specifies. The
processes of a workload take turns. Each cell has the median and range of the processes' medians,
and the ratio to the rate with the first instruction set. The script prints Markdown.

    python benches/instructions.py --instructions avx512,avx2 --threads 2 --rounds 5
"""

from __future__ import annotations

import argparse
import os
import statistics

import scaling
from machine import machine

VARIABLE = "TIDEGATE_SIMD"


def measured(name: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return the rates of a workload by instruction set, one per round."""
    rates: dict[str, list[float]] = {one: [] for one in options.instructions}
    asked = argparse.Namespace(threads=[options.threads], repeat=options.repeat)
    for turn in range(options.rounds):
        for one in options.instructions if turn % 2 == 0 else options.instructions[::-1]:
            os.environ[VARIABLE] = one
            rates[one].append(scaling.process(name, asked)[options.threads])
    return rates


def line(name: str, rates: dict[str, list[float]]) -> str:
    """Return a row of the table."""
    medians = {one: statistics.median(found) for one, found in rates.items()}
    first = next(iter(medians.values()))
    cells: list[str] = []
    for one, found in rates.items():
        share = "" if not cells else f", {medians[one] / first:.0%}"
        median, least, most = map(_rate, (medians[one], min(found), max(found)))
        cells.append(f"{median} ({least} to {most}){share}")
    return f"| {name} | {scaling.WORKLOADS[name][0]} | {' | '.join(cells)} |"


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate >= 1.0 else f"{rate:.3f}"


def main() -> None:
    """Measure, and print one row per workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--instructions",
        default="avx512,avx2",
        help="comma-separated; ratios are relative to the first",
    )
    add("--threads", type=int, default=2, help="threads per call")
    add("--only", default="W1,W2,W3,W4,W5", help="comma-separated prefixes of workload names")
    add("--rounds", type=int, default=5, help="processes per workload and instruction set")
    add("--repeat", type=int, default=3, help="timed calls per process, after the first")
    options = parser.parse_args()
    options.instructions = options.instructions.split(",")
    print(f"{machine()}; {options.threads} threads, {options.rounds} rounds\n")
    print(f"| workload | per second | {' | '.join(options.instructions)} |")
    print("| --- | --- |" + " --: |" * len(options.instructions), flush=True)
    names = [name for name in scaling.WORKLOADS if name.startswith(tuple(options.only.split(",")))]
    for name in names:
        print(line(name, measured(name, options)), flush=True)


if __name__ == "__main__":
    main()
