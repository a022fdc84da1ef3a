"""Measures workload W6: the as-of join of two tables, with tidegate and other systems.

Each left row is matched with the last right row of its key. The tables are as in W1, but all right
times differ, so that all systems have the same result. The systems take turns. In each round, each
system has a fresh process, whose first call is cold and whose other calls are warm. The script
prints a Markdown table and writes it, with every figure as JSON, to benches/out/.

    python benches/w6.py --rows 1000000,10000000 --keys 10,1000,100000 --order sorted,shuffled \
        --tolerance none,1000000 --threads 2 --rounds 5
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import statistics
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child
from child import Found
from clickhouse import load_tables
from measure import reset_peak, return_free_memory, status
from workload import SEED, SPAN_US, hash_rows, push_by_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

HERE = Path(__file__).parent
COLUMNS = ("k", "t", "a", "b", "t2", "c", "d")
OF_RIGHT = COLUMNS[4:]
SYSTEMS = ("tidegate", "polars", "pandas", "duckdb", "chdb")
# Sources push sorted tables with `--systems "tidegate stream"`.
STREAM = "tidegate stream"
TIMEOUT_S = 600.0


@dataclasses.dataclass(frozen=True)
class Case:
    """A point of the workload."""

    rows: int
    keys: int
    order: str
    tolerance: int | None


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and the files of its tables. The functions in `child` call a system a form."""

    form: str
    left: str
    right: str
    order: str
    tolerance: int | None
    threads: int
    repeat: int


@dataclasses.dataclass(frozen=True)
class Result:
    """All rounds of a system for a case."""

    case: Case
    system: str
    cold: list[float]
    warm: list[float]
    scratch: float

    @property
    def median(self) -> float:
        """Return the seconds of a warm call: the median of all rounds' medians."""
        return statistics.median(self.warm)


def generate(case: Case) -> tuple[pa.Table, pa.Table]:
    """Generate both tables of a case."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    step = SPAN_US // case.rows
    sides = []
    for names, least in ((COLUMNS[:4], 0), (("k", *OF_RIGHT), 1)):
        columns = (
            rng.integers(0, case.keys, case.rows),
            np.cumsum(rng.integers(least, 2 * step, case.rows, endpoint=True)),
            rng.integers(0, 1 << 62, case.rows),
            rng.random(case.rows),
        )
        table = pa.table(dict(zip(names, columns, strict=True)))
        sides.append(table.take(rng.permutation(case.rows)) if case.order == "shuffled" else table)
    return sides[0], sides[1]


def reference(left: pa.Table, right: pa.Table, tolerance: int | None) -> list[float]:
    """Return the fingerprint of the correct result, by a search for each left row."""
    codes = [
        side["k"].to_numpy() * (1 << 40) + side[time].to_numpy()
        for side, time in ((left, "t"), (right, "t2"))
    ]
    order = np.argsort(codes[1])
    place = np.searchsorted(codes[1][order], codes[0], "right") - 1
    row = order[np.maximum(place, 0)]
    distance = codes[0] - codes[1][row]
    is_near = distance <= ((1 << 39) if tolerance is None else tolerance)
    is_partner = (place >= 0) & (left["k"].to_numpy() == right["k"].to_numpy()[row]) & is_near
    rows = pa.array(row, mask=~is_partner)
    columns = [*left.columns, *(right[name].take(rows) for name in OF_RIGHT)]
    return fingerprint(pa.table(columns, names=COLUMNS))


def fingerprint(table: pa.Table) -> list[float]:
    """Return rows, matched rows, and a checksum of all values that ignores the order of rows."""
    table = table.select(list(COLUMNS))
    partners = table.num_rows - table["t2"].null_count
    columns: list[NDArray[np.generic]] = [
        pc.fill_null(column, pa.scalar(-1, column.type)).to_numpy() for column in table.columns
    ]
    # Split into two numbers that floats represent exactly.
    checksum = hash_rows(columns)
    return [table.num_rows, partners, checksum >> 32, checksum & 0xFFFF_FFFF]


def tidegate(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], Any]:
    """Join Arrow tables into one Arrow table in the order of the left rows."""
    import tidegate as tg  # noqa: PLC0415 - each system in its own process

    return lambda: tg.asof_join(
        left, right, on=("t", "t2"), by="k", tolerance=job.tolerance, threads=job.threads
    )


def tidegate_stream(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], Any]:
    """Push the tables in chunks from two sources, and poll the results after each chunk."""
    import tidegate as tg  # noqa: PLC0415 - each system in its own process

    def run() -> pa.Table:
        join = tg.AsofJoin(
            left.schema, right.schema, on=("t", "t2"), by="k", tolerance=job.tolerance,
            threads=job.threads,
        )  # fmt: skip
        return push_by_turns(join, left, right)

    return run


def polars(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], Any]:
    """Join frames. Unsorted frames are sorted first, and the result stays sorted by time."""
    import polars as pl  # noqa: PLC0415 - each system in its own process

    frames = [pl.DataFrame(left), pl.DataFrame(right)]

    def run() -> pl.DataFrame:
        sides = frames
        if job.order == "shuffled":
            sides = [frames[0].sort("t"), frames[1].sort("t2")]
        left, right = (frame.set_sorted(on) for frame, on in zip(sides, ("t", "t2"), strict=True))
        return left.join_asof(
            right, left_on="t", right_on="t2", by="k", tolerance=job.tolerance, coalesce=False,
            check_sortedness=False,
        )  # fmt: skip

    return run


def pandas(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], Any]:
    """Join frames, as with Polars."""
    import pandas as pd  # noqa: PLC0415 - each system in its own process

    frames = [left.to_pandas(), right.to_pandas()]

    def run() -> pd.DataFrame:
        sides = frames
        if job.order == "shuffled":
            sides = [frames[0].sort_values("t"), frames[1].sort_values("t2")]
        return pd.merge_asof(
            *sides, left_on="t", right_on="t2", by="k", tolerance=job.tolerance
        )  # fmt: skip

    return run


def duckdb(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], Any]:
    """Join native tables into an unordered Arrow table; apply the tolerance afterwards."""
    import duckdb as duck  # noqa: PLC0415 - each system in its own process

    connection = duck.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    for name, table in (("l", left), ("r", right)):
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
        connection.unregister("arrow_input")
    near = "true" if job.tolerance is None else f"l.t - r.t2 <= {job.tolerance}"
    of_right = ", ".join(f"case when {near} then {name} end as {name}" for name in OF_RIGHT)
    query = f"select l.k, t, a, b, {of_right} from l asof left join r on l.k = r.k and t >= t2"  # noqa: S608 - names of ours
    return lambda: connection.sql(query).to_arrow_table()


def chdb(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], Any]:
    """Join as with DuckDB; replace zeros in unmatched rows by nulls."""
    session = load_tables({"l": left, "r": right})
    near = "t2 > 0" if job.tolerance is None else f"t2 > 0 and l.t - r.t2 <= {job.tolerance}"
    of_right = ", ".join(f"if({near}, r.{name}, null) as {name}" for name in OF_RIGHT)
    query = (
        f"select l.k as k, t, a, b, {of_right} from l asof left join r on l.k = r.k and l.t >= r.t2"  # noqa: S608 - names of ours
        f" settings max_threads = {job.threads}"
    )
    return lambda: session.query(query, "ArrowTable")


def as_arrow(result: Any) -> pa.Table:  # noqa: ANN401 - what a system returns
    """Convert the result to Arrow, untimed. In pandas, NaN is null, and integers are floats."""
    if hasattr(result, "to_arrow"):
        return result.to_arrow()
    if isinstance(result, pa.Table):
        return result
    table = pa.Table.from_pandas(result, preserve_index=False)
    return table.set_column(table.column_names.index("t2"), "t2", table["t2"].cast(pa.int64()))


def measured(given: dict[str, Any]) -> Found:
    """Run a job; the last fingerprint value is the memory in addition to input and output."""
    job = Job(**given)
    left, right = (pa.ipc.open_file(pa.OSFile(path)).read_all() for path in (job.left, job.right))
    forms = {
        "tidegate": tidegate, STREAM: tidegate_stream, "polars": polars, "pandas": pandas,
        "duckdb": duckdb, "chdb": chdb,
    }  # fmt: skip
    prepare = forms[job.form]
    prepare(left.slice(0, 1000), right.slice(0, 1000), job)()
    run = prepare(left, right, job)
    return_free_memory()
    before = status("VmRSS")
    reset_peak()
    peaks: list[int] = []

    def checked(result: Any) -> list[float]:  # noqa: ANN401 - what a system returns
        peaks.append((status("VmHWM") or 0) - (before or 0))
        return fingerprint(as_arrow(result))

    found = child.measure(run, checked, job.repeat)
    return dataclasses.replace(found, fingerprint=[*found.fingerprint, peaks[0]])


def measure_case(case: Case, options: argparse.Namespace) -> list[Result]:
    """Measure all rounds of a case."""
    with tempfile.TemporaryDirectory() as folder:
        left, right = generate(case)
        expected = reference(left, right, case.tolerance)
        paths = [str(Path(folder) / name) for name in ("left", "right")]
        for path, table in zip(paths, (left, right), strict=True):
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
        del left, right
        found: dict[str, list[Found]] = {system: [] for system in options.systems.split(",")}
        for _, system in product(range(options.rounds), list(found)):
            job = Job(
                system, paths[0], paths[1], case.order, case.tolerance, options.threads,
                options.repeat,
            )  # fmt: skip
            one = child.run(__file__, job, TIMEOUT_S)
            if one is None:
                sys.exit(f"{system} took more than {TIMEOUT_S:.0f} s on {case}")
            # pandas represents unmatched rows as NaN, so large integers lose their last bits.
            same = 2 if system == "pandas" else len(expected)
            if one.fingerprint[:same] != expected[:same]:
                sys.exit(f"{system}, {case}: expected {expected}, found {one.fingerprint}")
            found[system].append(one)
            print(f"{case} {system} {one.medians[0]:.4f}", file=sys.stderr, flush=True)
    return [
        Result(
            case,
            system,
            cold=[one.first for one in rounds],
            warm=[one.medians[0] for one in rounds],
            scratch=statistics.median(one.fingerprint[-1] for one in rounds) / (2 * case.rows),
        )
        for system, rounds in found.items()
    ]


def markdown(results: list[Result]) -> str:
    """Return a table with one row per system and case."""
    lines = [
        (
            "| rows per side | keys | order | tolerance, us | system | warm, s | from | to "
            "| cold, s | M input rows/s | over tidegate | bytes per row beyond input |"
        ),
        "| --: | --: | --- | --: | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for result in results:
        case = result.case
        ours = [one for one in results if (one.case, one.system) == (case, "tidegate")]
        ratio = f"{result.median / ours[0].median:.2f}x" if ours else "-"
        tolerance = "none" if case.tolerance is None else f"{case.tolerance:,}"
        lines.append(
            f"| {case.rows:,} | {case.keys:,} | {case.order} | {tolerance} | {result.system} "
            f"| {result.median:.4f} | {min(result.warm):.4f} | {max(result.warm):.4f} "
            f"| {statistics.median(result.cold):.4f} "
            f"| {2 * case.rows / result.median / 1e6:.1f} | {ratio} | {result.scratch:.0f} |"
        )
    systems = dict.fromkeys(result.system.partition(" ")[0] for result in results)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in systems)
    return "\n".join([*lines, "", f"Versions: {versions}", ""])


def main() -> None:
    """Measure, print and write the results."""
    options = _options()
    results = []
    for rows, keys, order, tolerance in product(
        map(int, options.rows.split(",")),
        map(int, options.keys.split(",")),
        options.order.split(","),
        options.tolerance.split(","),
    ):
        case = Case(rows, keys, order, None if tolerance == "none" else int(tolerance))
        results += measure_case(case, options)
    text = markdown(results)
    print(text)
    folder = HERE / "out"
    folder.mkdir(exist_ok=True)
    (folder / f"{options.name}.md").write_text(text)
    values = [dataclasses.asdict(result) for result in results]
    (folder / f"{options.name}.json").write_text(json.dumps(values, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", default="1000000,10000000", help="rows per side, comma-separated")
    add("--keys", default="10,1000,100000", help="numbers of keys, comma-separated")
    add("--order", default="sorted,shuffled", help="sorted, shuffled or both")
    add("--tolerance", default="none,1000000", help="in microseconds or none, comma-separated")
    add("--systems", default=",".join(SYSTEMS), help="selected systems, comma-separated")
    add("--threads", type=int, default=2, help="threads per system")
    add("--rounds", type=int, default=5, help="processes per system")
    add("--repeat", type=int, default=5, help="warm calls per process; the median counts")
    add("--name", default="w6", help="name of the files in benches/out")
    return parser.parse_args()


if __name__ == "__main__":
    child.main(measured, main)
