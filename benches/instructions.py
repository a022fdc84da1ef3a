"""How fast W1 to W5 are with narrower instructions than the processor has.

A process of `scaling.py` asks a question with the instructions that `TIDEGATE_SIMD` names. The
processes of a workload take turns. A cell has the median of the processes' medians with their
range, and the share of the rate with the first set of instructions. Prints Markdown.

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
    """The rates of a workload by instructions, one of each round."""
    rates: dict[str, list[float]] = {one: [] for one in options.instructions}
    asked = argparse.Namespace(threads=[options.threads], repeat=options.repeat)
    for turn in range(options.rounds):
        for one in options.instructions if turn % 2 == 0 else options.instructions[::-1]:
            os.environ[VARIABLE] = one
            rates[one].append(scaling.process(name, asked)[options.threads])
    return rates


def line(name: str, rates: dict[str, list[float]]) -> str:
    """A line of the table."""
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
    """Measure, and print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--instructions", default="avx512,avx2", help="comma-separated; the first is compared with")
    add("--threads", type=int, default=2, help="threads of each call")
    add("--only", default="W1,W2,W3,W4,W5", help="how names of workloads begin, comma-separated")
    add("--rounds", type=int, default=5, help="processes of each workload and set")
    add("--repeat", type=int, default=3, help="timed calls of a process, after its first")
    options = parser.parse_args()
    options.instructions = options.instructions.split(",")
    print(f"{machine()}; {options.threads} threads, {options.rounds} rounds\n")
    print(f"| workload | a second | {' | '.join(options.instructions)} |")
    print("| --- | --- |" + " --: |" * len(options.instructions), flush=True)
    names = [name for name in scaling.WORKLOADS if name.startswith(tuple(options.only.split(",")))]
    for name in names:
        print(line(name, measured(name, options)), flush=True)


if __name__ == "__main__":
    main()
