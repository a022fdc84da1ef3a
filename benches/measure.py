"""Measures the time and peak memory of one form of the join on one case, in a separate process.

Run it as `python measure.py JOB.json`; it writes its measurements next to this file. In a separate
process, every system has its own thread count and allocator, and a peak that no other system has
raised. The steps are:

1. Read the inputs into memory (not mapped), pass them to the system, and run a small join, so that
   libraries are loaded and threads are started.
2. Reset the kernel's peak counter, run the join once, and read the peak while the result is alive.
3. Compare rows and checksum with the values that the job expects, and stop if they differ.
4. Run and time the join `repeat` times, or less often if the time budget is used up.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib.metadata
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from systems import FORMS, Form, Query
from workload import Fingerprint, Inputs, checksum

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = 1000  # rows per side of the join that loads libraries and starts threads
MISMATCH, NOT_INSTALLED = 3, 4  # exit statuses, for the parent


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a process and its expected result; the parent writes it as JSON."""

    system: str
    form: str
    threads: int
    left: str
    right: str
    upper: int
    rows: int
    checksum: int
    repeat: int
    budget_s: float
    result: str


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The measurements of a job. Memory is in bytes, or None if the kernel does not report it."""

    first_s: float
    seconds: list[float]
    cpu_s: float
    scratch: int | None
    version: str


def main(job_file: str) -> int:
    """Run the job in `job_file`."""
    job = Job(**json.loads(Path(job_file).read_text()))
    form = next(form for form in FORMS if (form.system, form.name) == (job.system, job.form))
    pa.set_cpu_count(job.threads)
    inputs = Inputs(_read(job.left), _read(job.right), job.upper)
    try:
        form.prepare(_head(inputs), job.threads).run()
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return NOT_INSTALLED
    measurement = _measure(form, inputs, job)
    if measurement is None:
        return MISMATCH
    Path(job.result).write_text(json.dumps(dataclasses.asdict(measurement)))
    return 0


def _measure(form: Form, inputs: Inputs, job: Job) -> Measurement | None:
    query = form.prepare(inputs, job.threads)
    return_free_memory()
    resident = status("VmRSS")
    reset_peak()
    result, first_s, _ = _timed(query.run)
    peak = status("VmHWM")
    found = checksum(query.batches(result))
    expected = Fingerprint(job.rows, job.checksum)
    if found != expected:
        print(f"{form.title}: expected {expected}, found {found}", file=sys.stderr)
        return None
    del result
    seconds, cpu_seconds = _repeat(query, job, first_s)
    return Measurement(
        first_s=first_s,
        seconds=seconds,
        cpu_s=statistics.median(cpu_seconds),
        scratch=_scratch(form, job, resident, peak),
        version=importlib.metadata.version(job.system),
    )


def _repeat(query: Query[Any], job: Job, first_s: float) -> tuple[list[float], list[float]]:
    affordable = int((job.budget_s - first_s) / first_s)
    seconds, cpu_seconds = [], []
    for _ in range(max(1, min(job.repeat, affordable))):
        result, elapsed, cpu = _timed(query.run)
        seconds.append(elapsed)
        cpu_seconds.append(cpu)
        del result
        gc.collect()
    return seconds, cpu_seconds


def _timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, and its wall-clock and CPU seconds."""
    start, cpu_start = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - start, time.process_time() - cpu_start


def _read(path: str) -> pa.Table:
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).read_all()


def _head(inputs: Inputs) -> Inputs:
    return Inputs(inputs.left.slice(0, SMALL), inputs.right.slice(0, SMALL), inputs.upper)


def _scratch(form: Form, job: Job, resident: int | None, peak: int | None) -> int | None:
    """Return the memory in addition to input and output, which the join itself needed."""
    if resident is None or peak is None:
        return None
    output = output_bytes(job.rows) if form.output == "table" else 0
    return peak - resident - output


def output_bytes(rows: int) -> int:
    """Return the size of eight columns of eight bytes, none of them null."""
    return 64 * rows


def return_free_memory() -> None:
    """Return freed pages to the system, so that the join cannot reuse pages from reading inputs."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def reset_peak() -> None:
    """Reset the kernel's peak counter of resident memory."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def status(field: str) -> int | None:
    """Return a size from /proc/self/status in bytes, or None if the system has no such file."""
    if sys.platform != "linux":
        return None
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    message = f"/proc/self/status has no field {field}"
    raise LookupError(message)


def environment(threads: int) -> dict[str, str]:
    """Return the parent's environment with the thread count of every library.

    The parent sets these counts, because libraries read them once, when they are loaded.
    """
    names = ("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS", "TOKIO_WORKER_THREADS")
    return os.environ | dict.fromkeys(names, str(threads))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
