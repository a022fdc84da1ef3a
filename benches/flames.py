"""Draws flame graphs of the workloads, and prints the share of processor time of each stage.

Each workload of `scaling.py` runs in a separate process, which generates its rows and runs its
query once. Then `perf` samples the process while it repeats the query. Each sample is attributed to
the room of tidegate's innermost function, to waiting, or to memory from the system. `inferno` draws
a flame graph, in which the width of a frame is the number of samples with this function on the
stack.

The script needs `perf` on Linux, `inferno` (`cargo install inferno`), and a module whose functions
have frame pointers:

    RUSTFLAGS="-C force-frame-pointers=yes" maturin develop --release
    python benches/flames.py --threads 2 --out benches/plots/flames
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from machine import machine
from scaling import SCALES, WORKLOADS

FLAMES = {
    "w1": "W1 interval_join, 5M rows per side",
    "w1-batches": "W1 interval_join_batches",
    "w1s": "W1 streams, IntervalJoin, key",
    "w2": "W2 band_join, 3M rows per side",
    "w2-streams": "W2 streams, BandJoin, buckets",
    "w3": "W3 streams, WindowJoin, scalejoin",
    "w4": "W4 aggregate, 243 keys",
    "w4-streams": "W4 streams, Aggregate, 243 keys",
    "w5": "W5 merge, 20 tables",
    "w6": "W6 asof_join, sorted",
    "w7": "W7 aggregates of 100 partners",
    "w8": "W8 overlap_join, shuffled",
}
"""The workloads of `scaling.py` that have a flame graph, by file name."""

SAMPLES_S = 997
"""The number of samples per second and thread."""

ATTACHED_S = 1.0
"""The time after which perf has found all threads."""

WAITING = re.compile("sched_yield|futex|nanosleep|snooze")
NEW_MEMORY = re.compile("page_fault|clear_page|madvise|munmap|mmap|brk")
CALLERS = ("operators::driver", "structures::simd::wide", "sync::loan")
"""Rooms whose functions only call other functions, which the compiler often inlines into them."""

CRATES = ("structures", "operators", "papers", "tidegate", "import", "sync")

SHOWN = 0.03
"""The minimum share for a stage to be shown."""


def sampled(workload: str, threads: int, seconds: float, data: Path) -> float:
    """Repeat the query while `perf` writes samples to `data`, and return the rate."""
    ask = WORKLOADS[workload][1]()
    for _ in range(2):
        ask(threads)
    command = ["perf", "record", "-q", "-g", "-F", str(SAMPLES_S), "-o", str(data)]
    command += ["-p", str(os.getpid()), "--", "sleep", str(seconds + ATTACHED_S)]
    rates = []
    with subprocess.Popen(command) as perf:  # noqa: S603 - this command
        # Before this time, perf fails if a thread ends.
        time.sleep(ATTACHED_S)
        while perf.poll() is None:
            asked = ask(threads)
            rates.append(asked.amount / asked.seconds)
    if perf.returncode:
        sys.exit(f"perf ended with {perf.returncode}")
    return statistics.median(rates)


def folded(data: Path) -> Counter[str]:
    """Return the number of samples per stack, with the outermost function first."""
    script = subprocess.run(  # noqa: S603 - this command
        ["perf", "script", "-i", str(data)],  # noqa: S607
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    collapsed = subprocess.run(
        ["inferno-collapse-perf"],  # noqa: S607
        input=script.stdout, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    stacks: Counter[str] = Counter()
    for line in collapsed.stdout.decode().splitlines():
        stack, _, count = line.rpartition(" ")
        stacks[";".join(map(_plain, stack.split(";")))] += int(count)
    return stacks


def _plain(function: str) -> str:
    """Return a function's name without its types, its hash and the common crate prefix."""
    while (shorter := re.sub(r"<[^<>]*>", "", function)) != function:
        function = shorter
    function = re.sub(r"::h[0-9a-f]{16}$", "", function)
    function = re.sub(r"::\{\{closure\}\}|\{closure#\d+\}|::\{impl#\d+\}", "", function)
    return function.replace("tidegate_", "").replace("::::", "::").strip(":") or "?"


# Output


def stage(stack: str) -> str:
    """Return the stage of a sample: the room of its innermost tidegate function, or another one."""
    functions = stack.split(";")[1:]
    if WAITING.search(";".join(functions[-6:])):
        return "waiting for another thread"
    if NEW_MEMORY.search(";".join(functions[-8:])):
        return "memory from the system"
    found = "Python and libraries"
    for function in reversed(functions):
        parts = re.split(r"::| as ", function)
        if parts[0] in CRATES and len(parts) > 2:  # noqa: PLR2004 - a crate, a room and a function
            found = "::".join(parts[: min(3, len(parts) - 1)])
            if not found.startswith(CALLERS):
                break
    return found


def shares(stacks: Counter[str]) -> str:
    """Return the stages of a workload, the largest first."""
    total = sum(stacks.values())
    stages: Counter[str] = Counter()
    for stack, count in stacks.items():
        stages[stage(stack)] += count
    shown = [(name, count) for name, count in stages.most_common() if count / total >= SHOWN]
    return ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in shown)


def draw(stacks: Counter[str], title: str, out: Path) -> None:
    """Write a flame graph."""
    lines = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
    command = ["inferno-flamegraph", "--title", title, "--minwidth", "0.4", "--deterministic"]
    drawn = subprocess.run(  # noqa: S603 - this command
        [*command, "--width", "1000"], input=lines.encode(), stdout=subprocess.PIPE, check=True
    )
    out.write_bytes(drawn.stdout)


def main() -> None:
    """Sample each workload in a separate process, then draw and print the results."""
    options = _options()
    if options.process:
        unit = WORKLOADS[FLAMES[options.process]][0]
        amount = sampled(FLAMES[options.process], options.threads, options.seconds, options.data)
        print(f"{amount / SCALES[unit]:.1f} {unit}")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{machine()}; {options.threads} threads\n")
    print("| workload | per second | share of the samples |\n| --- | --: | --- |")
    for name in options.only or FLAMES:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "samples"
            command = [sys.executable, __file__, "--process", name, "--data", str(data)]
            command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - this script
            stacks = folded(data)
        draw(stacks, FLAMES[name], options.out / f"{name}.svg")
        link = f"[{FLAMES[name]}]({options.out.name}/{name}.svg)"
        print(f"| {link} | {done.stdout.strip()} | {shares(stacks)} |", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Flame graphs of the workloads.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5, help="seconds of sampling")
    parser.add_argument("--only", nargs="*", choices=FLAMES, help="workloads; by default, all")
    parser.add_argument(
        "--out", type=Path, default=Path("flames"), help="folder for the flame graphs"
    )
    parser.add_argument("--process", choices=FLAMES, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
