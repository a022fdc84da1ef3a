"""A job of a bench in a process of its own: the times of its calls, and their results."""

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

    import pyarrow as pa

Fingerprint = list[float]
"""The number of rows of a result, and what else is compared."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What a job found. The first call's time is apart: nothing is warm yet."""

    first: float
    seconds: list[float]
    cpu: list[float]
    fingerprint: Fingerprint

    @property
    def medians(self) -> tuple[float, float]:
        """Seconds by the clock and of all processors, of the calls after the first."""
        return statistics.median(self.seconds), statistics.median(self.cpu)


def measure(
    run: Callable[[], pa.Table], fingerprint: Callable[[pa.Table], Fingerprint], repeat: int
) -> Found:
    """Call once to check, then `repeat` times."""
    start = time.perf_counter()
    found = run()
    first = time.perf_counter() - start
    checked = fingerprint(found)
    del found
    seconds, cpu = [], []
    for _ in range(repeat):
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
    """What a script finds when it is called with a job; None if it takes longer."""
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
    """Do a job if the command line has one, else what the parent does."""
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(dataclasses.asdict(measured(json.loads(sys.argv[2])))))
    else:
        parent()
