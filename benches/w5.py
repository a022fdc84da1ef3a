"""Measures workload W5: the merge of k sorted tables, with tidegate and alternatives.

The script prints a Markdown table and writes it, with every figure as JSON, to benches/out/. `cargo
bench -p tidegate-benches --bench w5_gate` measures the gates alone.

    python benches/w5.py --rows 10000000 --sources 2,20 --threads 2
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from measure import MISMATCH, NOT_INSTALLED, environment
from merging import SYSTEMS, Job, Measurement
from workload import SEED, SPAN_US

HERE = Path(__file__).parent
OURS = "tidegate merge"


@dataclasses.dataclass(frozen=True)
class Result:
    """The measurements of a system for a number of sources."""

    system: str
    sources: int
    threads: int
    measurement: Measurement | None
    skipped: str = ""

    @property
    def rate(self) -> float:
        """Return the rows per second of the median run, or 0 if there is none."""
        if self.measurement is None:
            return 0.0
        return self.measurement.rows / statistics.median(self.measurement.seconds)


def main() -> None:
    """Measure, print and write the results."""
    options = _options()
    results = []
    for sources in map(int, options.sources.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            tables = generate(options.rows, sources, Path(folder))
            for threads in map(int, options.threads.split(",")):
                for system in options.systems.split(","):
                    job = Job(system, tables, options.repeat)
                    result = run_system(job, sources, threads, Path(folder))
                    print(f"{system}, k = {sources}: {result.rate / 1e6:.1f} M", file=sys.stderr)
                    results.append(result)
    text = markdown(results)
    print(text)
    found = HERE / "out"
    found.mkdir(exist_ok=True)
    (found / "w5.md").write_text(text)
    values = [dataclasses.asdict(result) for result in results]
    (found / "w5.json").write_text(json.dumps(values, indent=1))


def generate(rows: int, sources: int, folder: Path) -> list[str]:
    """Write `sources` files with tables of (ts, value) over 1 000 s, with `rows` rows in total."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    each = rows // sources
    paths = []
    for source in range(sources):
        steps = rng.integers(0, 2 * SPAN_US // each, each, endpoint=True)
        table = pa.table({"ts": np.cumsum(steps), "value": rng.integers(0, 1 << 62, each)})
        paths.append(str(folder / f"{source}.arrow"))
        with pa.ipc.new_file(paths[-1], table.schema) as file:
            file.write_table(table)
    return paths


def run_system(job: Job, sources: int, threads: int, folder: Path) -> Result:
    """Run a system in a separate process; return its measurements, or why there are none."""
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(dataclasses.asdict(job)))
    done = subprocess.run(  # noqa: S603  (our own script, in this interpreter)
        [sys.executable, HERE / "merging.py", job_file],
        env=environment(threads),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NOT_INSTALLED:
        return Result(job.system, sources, threads, None, "not installed")
    if done.returncode != 0:
        why = "gave other rows" if done.returncode == MISMATCH else "failed"
        sys.exit(f"{job.system} {why} at k = {sources}:\n{done.stderr}")
    return Result(job.system, sources, threads, Measurement(**json.loads(done.stdout)))


def markdown(results: list[Result]) -> str:
    """Return a table of rates and of tidegate's lead."""
    lines = [
        "| k | threads | system | rows | M rows/s | tidegate ahead by |",
        "| --: | --: | --- | --: | --: | --: |",
    ]
    for result in results:
        ours = next(
            (
                other.rate
                for other in results
                if (other.system, other.sources, other.threads)
                == (OURS, result.sources, result.threads)
            ),
            0.0,
        )
        found = result.measurement
        rate = f"{result.rate / 1e6:.1f}" if found else result.skipped
        ahead = f"{ours / result.rate:.1f}x" if found and ours else "-"
        rows = f"{found.rows:,}" if found else "-"
        place = f"{result.sources} | {result.threads} | {result.system}"
        lines.append(f"| {place} | {rows} | {rate} | {ahead} |")
    versions = {
        result.system: result.measurement.version for result in results if result.measurement
    }
    lines += ["", "Versions: " + ", ".join(f"{name} {text}" for name, text in versions.items())]
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=10_000_000, help="rows of all sources together")
    add("--sources", default="2,20", help="numbers of sources, comma-separated")
    add("--threads", default="2", help="thread counts, comma-separated")
    add("--systems", default=",".join(SYSTEMS), help="selected systems, comma-separated")
    add("--repeat", type=int, default=3, help="timed runs after the first; the median counts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
