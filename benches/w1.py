"""Measures workload W1: the interval join by key, with tidegate and other systems.

The script prints two Markdown tables and writes them, with every figure as JSON, to benches/out/:
tidegate's lead over the fastest rival of each kind, and all forms individually.

    python benches/w1.py --rows 1000000 --keys 10,1000,100000 --skew uniform,skewed \
        --threads 1,2 --systems all --repeat 3
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from measure import MISMATCH, NOT_INSTALLED, Job, Measurement, environment
from report import Result, markdown
from systems import FORMS, SYSTEMS, Form
from workload import (
    Case,
    Fingerprint,
    Inputs,
    generate,
    pairs_of_close_times,
    pairs_of_equal_keys,
    reference,
)

HERE = Path(__file__).parent
# The number of pairs that a form may visit in addition to its matches: 5 to 20 s in these systems.
EQUAL_KEYS, CLOSE_TIMES = 3_000_000_000, 200_000_000


@dataclasses.dataclass(frozen=True)
class Options:
    """The options on the command line."""

    cases: list[Case]
    threads: list[int]
    forms: list[Form]
    repeat: int
    budget_s: float
    timeout_s: float
    most_visits: dict[str, float]
    python: dict[str, str]
    name: str


def main() -> None:
    """Measure, print and write the results."""
    options = _options()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            results += _measure_case(case, options, Path(folder))
    text = markdown(results)
    print(text)
    _write(options.name, text, results)


def _measure_case(case: Case, options: Options, folder: Path) -> list[Result]:
    _say(f"{case.name}: generating")
    inputs = generate(case)
    expected = reference(inputs)
    visits: dict[str, int] = {
        "matches": 0,
        "equal keys": pairs_of_equal_keys(inputs.left, inputs.right),
        "close times": pairs_of_close_times(inputs),
    }
    job = write_job(inputs, expected, options, folder)
    del inputs
    results = []
    for form in options.forms:
        for threads in [min(options.threads)] if form.single else options.threads:
            result = Result(case, form.system, form.name, threads)
            if visits[form.visits] > options.most_visits[form.visits]:
                result = dataclasses.replace(result, skipped=f"{visits[form.visits]:.0e} pairs")
            else:
                result = run_form(
                    result, dataclasses.replace(job, threads=threads), options, folder
                )
            _say(f"{case.name}: {result.line()}")
            results.append(result)
    return results


def write_job(inputs: Inputs, expected: Fingerprint, options: Options, folder: Path) -> Job:
    """Write the job of a case, with its inputs on disk, but without system, form and threads."""
    for name, table in (("left", inputs.left), ("right", inputs.right)):
        with pa.ipc.new_file(folder / name, table.schema) as file:
            file.write_table(table)
    return Job(
        system="",
        form="",
        threads=0,
        left=str(folder / "left"),
        right=str(folder / "right"),
        upper=inputs.upper,
        rows=expected.rows,
        checksum=expected.checksum,
        repeat=options.repeat,
        budget_s=options.budget_s,
        result=str(folder / "result.json"),
    )


def run_form(result: Result, job: Job, options: Options, folder: Path) -> Result:
    """Run a form in a separate process; return its measurements, or why there are none."""
    job = dataclasses.replace(job, system=result.system, form=result.form)
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(dataclasses.asdict(job)))
    python = options.python.get(result.system, sys.executable)
    try:
        done = subprocess.run(  # noqa: S603  (our own script, in an interpreter the user named)
            [python, HERE / "measure.py", job_file],
            env=environment(job.threads),
            capture_output=True,
            text=True,
            timeout=options.timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return dataclasses.replace(result, skipped=f"> {options.timeout_s:.0f} s")
    if done.returncode == NOT_INSTALLED:
        return dataclasses.replace(result, skipped="not installed")
    if done.returncode != 0:
        why = "gave another result" if done.returncode == MISMATCH else "failed"
        sys.exit(f"{result.title} {why} on {result.case.name}:\n{done.stderr}")
    measurement = Measurement(**json.loads(Path(job.result).read_text()))
    return dataclasses.replace(result, measurement=measurement)


def _write(name: str, text: str, results: list[Result]) -> None:
    folder = HERE / "out"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    values = [dataclasses.asdict(result) for result in results]
    (folder / f"{name}.json").write_text(json.dumps(values, indent=1))


def _options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", default="1000000", help="rows per side, comma-separated")
    add("--keys", default="10,1000,100000", help="numbers of keys, comma-separated")
    add("--skew", default="uniform,skewed", help="uniform, skewed or both")
    add("--threads", default="1,2", help="thread counts, comma-separated")
    add("--systems", default="all", help=f"all, or some of {','.join(SYSTEMS)}")
    add("--forms", default="all", help="all, or form names such as table,buckets")
    add("--repeat", type=int, default=3, help="timed runs after the first; the median counts")
    add("--budget", type=float, default=30, help="maximum seconds of timed runs per form")
    add("--timeout", type=float, default=120, help="time limit per form in seconds")
    add(
        "--equal-keys",
        type=float,
        default=EQUAL_KEYS,
        help="maximum pairs that a plain form visits",
    )
    add(
        "--close-times",
        type=float,
        default=CLOSE_TIMES,
        help="maximum pairs that a join on time visits",
    )
    add(
        "--python",
        action="append",
        default=[],
        metavar="SYSTEM=PATH",
        help="interpreter of the system",
    )
    add("--name", default="w1", help="name of the files in benches/out")
    given = parser.parse_args()
    return Options(
        cases=[
            Case(int(rows), int(keys), skew)
            for rows in given.rows.split(",")
            for keys in given.keys.split(",")
            for skew in _chosen(parser, "--skew", given.skew, ("uniform", "skewed"))
        ],
        threads=[int(threads) for threads in given.threads.split(",")],
        forms=_forms(parser, given.systems, given.forms),
        repeat=given.repeat,
        budget_s=given.budget,
        timeout_s=given.timeout,
        most_visits={
            "matches": 0,
            "equal keys": given.equal_keys,
            "close times": given.close_times,
        },
        python=dict(entry.split("=", 1) for entry in given.python),
        name=given.name,
    )


def _forms(parser: argparse.ArgumentParser, systems: str, names: str) -> list[Form]:
    chosen = _chosen(parser, "--systems", systems, SYSTEMS)
    allowed = _chosen(parser, "--forms", names, tuple(form.name for form in FORMS))
    return [form for form in FORMS if form.system in chosen and form.name in allowed]


def _chosen(
    parser: argparse.ArgumentParser, option: str, given: str, known: tuple[str, ...]
) -> tuple[str, ...]:
    if given == "all":
        return known
    names = tuple(given.split(","))
    for name in names:
        if name not in known:
            parser.error(f"{option}: expected some of {', '.join(known)}, found {name!r}")
    return names


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
