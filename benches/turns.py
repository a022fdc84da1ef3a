"""Runs the systems in a benchmark in turns, and formats their times."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import child

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Rounds = dict[str, list[child.Found]]
"""The measurements of each form, one per round."""


def measured(
    script: str, jobs: Sequence[Any], rounds: int, timeout: float, compared: int | None = None
) -> Rounds:
    """Run each job in a fresh process in every round, and compare the results of all jobs.

    Every second round runs in reverse order. A job that exceeds the time limit is not run again.

    Args:
        script: The benchmark script, which runs one job per process.
        jobs: One job per form.
        rounds: The number of rounds.
        timeout: The time limit per process in seconds.
        compared: The number of leading fingerprint values that describe the result. Any further
            values are additional measurements. None means that all values describe the result.
    """
    found: Rounds = {job.form: [] for job in jobs}
    late: set[str] = set()
    expected: child.Fingerprint = []
    for number in range(rounds):
        for job in jobs if number % 2 == 0 else jobs[::-1]:
            if job.form in late:
                continue
            one = child.run(script, job, timeout)
            if one is None:
                late.add(job.form)
                continue
            result = one.fingerprint[:compared]
            expected = expected or result
            if result != expected:
                sys.exit(f"{job}: expected {expected}, found {result}")
            found[job.form].append(one)
            times = f"first {one.first * 1e3:.3f} ms, warm {one.medians[0] * 1e3:.3f} ms"
            print(f"{number + 1}/{rounds} {job.form}: {times}", file=sys.stderr, flush=True)
    return found


def first(rounds: list[child.Found]) -> list[float]:
    """Return the duration of the first call in each round, in seconds."""
    return [one.first for one in rounds]


def warm(rounds: list[child.Found]) -> list[float]:
    """Return the median duration of the later calls in each round, in seconds."""
    return [one.medians[0] for one in rounds]


def ratios(rounds: list[child.Found], ours: list[child.Found]) -> list[float]:
    """Return the duration of warm calls relative to ours in each round."""
    return [other / own for other, own in zip(warm(rounds), warm(ours), strict=False)]


def spread(values: Sequence[float], scale: float = 1.0) -> str:
    """Return the median and the range of scaled values, or a dash if there are none."""
    if not values:
        return "-"
    scaled = [value * scale for value in values]
    median, low, high = (_digits(one(scaled)) for one in (statistics.median, min, max))
    return f"{median} ({low} to {high})"


def _digits(value: float) -> str:
    """Format a value with at least three significant digits."""
    places = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0  # noqa: PLR2004
    return f"{value:,.{places}f}"


def versions(systems: Iterable[str]) -> str:
    """Return package versions; each system's name begins with the name of its package."""
    packages = dict.fromkeys(system.partition(" ")[0] for system in systems)
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def write(path: Path, every: Mapping[str, Rounds]) -> None:
    """Write all measurements as JSON."""
    values = {
        case: {form: [dataclasses.asdict(one) for one in found] for form, found in of.items()}
        for case, of in every.items()
    }
    path.write_text(json.dumps(values, indent=1))


def report(
    heading: str, every: Mapping[str, Rounds], given: argparse.Namespace, rows: int | None = None
) -> None:
    """Print a table of all cases, and write all figures if a file is given.

    Args:
        heading: The line before the table.
        every: The rounds of each system by case.
        given: The options of the script.
        rows: The number of rows that each call reads, to show the rate.
    """
    rate = "" if rows is None else " M rows/s |"
    print(f"{heading}\n")
    print(f"| case | result rows | system | first call, s | warm, s |{rate} relative |")
    print(f"| --- | --: | --- | --: | --: |{' --: |' if rate else ''} --: |")
    for case, found in every.items():
        for system, rounds in found.items():
            own = [] if system == "tidegate" else found.get("tidegate", [])
            ratio = spread(ratios(rounds, own)) if own else ""
            size = f"{rounds[0].fingerprint[0]:,.0f}" if rounds else "-"
            columns = [case, size, system, spread(first(rounds)), spread(warm(rounds))]
            if rows is not None:
                columns.append(spread([rows / 1e6 / seconds for seconds in warm(rounds)]))
            print(f"| {' | '.join([*columns, ratio])} |")
    print(f"\nVersions: {versions(given.systems.split(','))}")
    if given.json:
        write(given.json, every)


def parser(description: str, lists: Mapping[str, Iterable[str]]) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark in turns has.

    `lists` contains the names from which an option such as `systems` selects some.
    """
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    add = made.add_argument
    for option, known in lists.items():
        add(f"--{option}", default=",".join(known), help=f"selected {option}, comma-separated")
    add("--threads", type=int, default=2, help="threads per system")
    add("--rounds", type=int, default=5, help="processes per system and case")
    add("--repeat", type=int, default=3, help="minimum number of warm calls per process")
    add("--timeout", type=float, default=600, help="maximum seconds per process")
    add("--json", type=Path, help="file for all figures")
    return made


def parsed(made: argparse.ArgumentParser, lists: Mapping[str, Iterable[str]]) -> argparse.Namespace:
    """Return the options of this process. Exits if an option selects an unknown name."""
    given = made.parse_args()
    for option, names in lists.items():
        known = list(names)
        for name in getattr(given, option).split(","):
            if name not in known:
                made.error(f"--{option}: expected some of {', '.join(known)}, found {name!r}")
    return given
