"""Runs a job of a bench in a separate process, and measures the times and results of its calls."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Fingerprint = list[float]
"""The number of rows of a result, and any other values to compare."""


@dataclasses.dataclass(frozen=True)
class Found:
    """The measurements of a job. The time of the first call is separate, because it is cold."""

    first: float
    seconds: list[float]
    cpu: list[float]
    fingerprint: Fingerprint

    @property
    def medians(self) -> tuple[float, float]:
        """Return the median wall-clock and CPU seconds of the calls after the first."""
        return statistics.median(self.seconds), statistics.median(self.cpu)


def measure(
    run: Callable[[], Any],
    fingerprint: Callable[[Any], Fingerprint],
    repeat: int,
    least_s: float = 0.0,
) -> Found:
    """Call once to check the result, then at least `repeat` times and for at least `least_s` s."""
    start = time.perf_counter()
    found = run()
    first = time.perf_counter() - start
    checked = fingerprint(found)
    del found
    seconds: list[float] = []
    cpu: list[float] = []
    began = time.perf_counter()
    while len(seconds) < repeat or time.perf_counter() - began < least_s:
        start, cpu_start = time.perf_counter(), time.process_time()
        found = run()
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
        del found
    return Found(first, seconds, cpu, checked)


def run(
    script: str,
    job: Any,  # noqa: ANN401 - any dataclass
    timeout: float,
    python: str = sys.executable,
) -> Found | None:
    """Return the measurements of a script that runs a job, or None if it exceeds the time limit."""
    from measure import environment  # noqa: PLC0415 - the child needs none of it

    command = [python, script, "--job", json.dumps(dataclasses.asdict(job))]
    try:
        done = subprocess.run(  # noqa: S603 - a script of this folder
            command,
            env=environment(job.threads),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        sys.exit(f"{job.form} failed:\n{done.stderr}")
    return Found(**json.loads(done.stdout))


def main(measured: Callable[[dict[str, Any]], Found], parent: Callable[[], None]) -> None:
    """Run the job on the command line, or the parent's function if there is none."""
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(dataclasses.asdict(measured(json.loads(sys.argv[2])))))
    else:
        parent()
