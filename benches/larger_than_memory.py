"""Measures a join of two sets of Parquet files that are larger than memory.

    python benches/larger_than_memory.py --size 20GB --folder DIR

The script writes two sides of 200 files each to DIR unless they already exist, and joins each trade
with the quotes of its symbol in the second before it. The systems take turns, each in a fresh
process. Systems that support a memory limit all use the same limit:

- `tidegate`: `interval_join_batches` with `memory_limit`.
- `tasks`: the tasks of `tidegate.tasks`, which threads run in turn.
- `reading`: only reads all columns of both sides with pyarrow.
- `duckdb`: the same join with bins of a second, which is its fastest form, with its memory limit
  and a temporary folder.
- `polars`: the same join with bins, with the streaming engine. Polars has no memory limit;
  `--most-rss` stops it.

Each system returns its result as batches, whose rows are counted. Each system that has finished
then runs again, untimed, to compute a digest of the rows of a few symbols, regardless of order.
DuckDB joins only these symbols; row counts and digests have to match. The memory of each process is
sampled while it is running, and `larger_than_memory_plot.py` draws it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import larger_than_memory_plot
from measure import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SYSTEMS = ("tidegate", "tasks", "reading", "duckdb", "polars")
KEYS = 1000
SAMPLE = ["S007", "S123", "S500", "S999"]
WIDTH_US = 1_000_000
"""The interval, and the approximate time between rows of a key on each side."""

STEP_US = WIDTH_US // KEYS
ROW_BYTES = 44  # approximate size of a file
SAMPLED_EVERY_S = 0.1
CHECKED_MORE = 2
"""The factor by which a run that computes digests may be slower than a timed run."""

LIMIT_EXCEEDED, OUT_OF_TIME = "memory", "time"
UNITS = {"GB": 10**9, "MB": 10**6}


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a process."""

    system: str
    folder: str
    limit: int
    threads: int
    digests: bool = False
    """Whether the rows of a few symbols are compared, which timed jobs do not do."""


@dataclasses.dataclass
class Counted:
    """The parts of a result that are compared."""

    rows: int = 0
    sampled: int = 0
    digest: int = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count rows, and add the rows of a few symbols to the digest."""
        self.rows += batch.num_rows
        of_sample = pc.is_in(batch.column("sym").cast(pa.string()), pa.array(SAMPLE))
        rows = batch.filter(of_sample)
        if rows.num_rows == 0:
            return
        self.sampled += rows.num_rows
        mixed = np.zeros(rows.num_rows, np.uint64)
        for name in ("trade", "quote", "price", "bid"):
            values = _plain(rows.column(name)).view(np.uint64)
            mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        self.digest = (self.digest + int(mixed.sum(dtype=np.uint64))) % 2**64


def _plain(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = (
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )
    return np.ascontiguousarray(found)


# Files


def make(folder: Path, size: int, files: int) -> dict[str, Any]:
    """Write both sides unless they already exist."""
    rows = max(1, size // (2 * files * ROW_BYTES))
    wanted = {"files": files, "rows_a_file": rows, "keys": KEYS, "step_us": STEP_US}
    note = folder / "made.json"
    if not note.exists() or json.loads(note.read_text()) != wanted:
        for number in range(files):
            _write(folder / "trades", number, rows, "trade", ("price", "fee"))
            _write(folder / "quotes", number, rows, "quote", ("bid", "ask"))
        note.write_text(json.dumps(wanted))
    made = sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
    return {**wanted, "rows": 2 * files * rows, "bytes": made}


def _write(folder: Path, number: int, rows: int, name: str, floats: tuple[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng([number, len(name), ord(name[0])])
    ids = np.arange(number * rows, (number + 1) * rows)
    # Times ascend by random parts of a step.
    times = ids * STEP_US + chance.integers(0, STEP_US, rows)
    symbols = pa.array([f"S{key:03}" for key in range(KEYS)])
    keys = pa.DictionaryArray.from_arrays(chance.integers(0, KEYS, rows).astype(np.int32), symbols)
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "sym": keys.cast(pa.string()),
            name: ids,
            floats[0]: chance.random(rows),
            floats[1]: chance.random(rows),
            f"size_{name}": chance.integers(0, 1 << 20, rows).astype(np.int32),
        }
    )
    pq.write_table(table, folder / f"{number:05}.parquet", row_group_size=1 << 18)


# Systems


def batches_of(job: Job) -> Iterator[pa.RecordBatch | pa.Table]:
    """Return the result of a system."""
    makers: dict[str, Callable[[Job], Iterator[pa.RecordBatch | pa.Table]]] = {
        "tidegate": _tidegate,
        "tasks": _tasks,
        "duckdb": _duckdb,
        "polars": _polars,
    }
    return makers[job.system](job)


def _tidegate(job: Job) -> Iterator[pa.RecordBatch]:
    import tidegate as tg  # noqa: PLC0415 - each process has one system

    with tg.interval_join_batches(
        f"{job.folder}/trades",
        f"{job.folder}/quotes",
        on="ts",
        by="sym",
        lower="-1s",
        upper="0s",
        threads=job.threads,
        memory_limit=job.limit,
    ) as pairs:
        for batch in pairs:
            yield pa.record_batch(batch)


def _tasks(job: Job) -> Iterator[pa.Table]:
    import tidegate as tg  # noqa: PLC0415 - each process has one system

    plan = tg.tasks(
        tg.interval_join,
        f"{job.folder}/trades",
        f"{job.folder}/quotes",
        on="ts",
        by="sym",
        lower="-1s",
        upper="0s",
        # A task takes up to four times as much memory as it reads.
        target=job.limit // (6 * job.threads),
    )
    with ThreadPoolExecutor(job.threads) as threads:
        waiting: deque[Future[pa.Table]] = deque()
        for task in plan.tasks:
            waiting.append(threads.submit(lambda one: one.run().read_all(), task))
            if len(waiting) > job.threads:
                yield waiting.popleft().result()
        for one in waiting:
            yield one.result()


def pairs_in_sql(folder: str, only: list[str] | None = None) -> str:
    """Return the join with bins: each left row is compared with its own bin and the one before."""
    where = "" if only is None else f"WHERE sym IN ({', '.join(map(repr, only))})"
    return f"""
        WITH trades AS (
            SELECT *, unnest([epoch_us(ts) // {WIDTH_US}, epoch_us(ts) // {WIDTH_US} - 1]) AS bin
            FROM read_parquet('{folder}/trades/*.parquet') {where}
        ), quotes AS (
            SELECT *, epoch_us(ts) // {WIDTH_US} AS bin
            FROM read_parquet('{folder}/quotes/*.parquet') {where}
        )
        SELECT l.ts, l.sym, trade, price, fee, size_trade,
               r.ts AS ts_right, quote, bid, ask, size_quote
        FROM trades AS l JOIN quotes AS r ON l.sym = r.sym AND l.bin = r.bin
        WHERE r.ts BETWEEN l.ts - INTERVAL {WIDTH_US} MICROSECONDS AND l.ts
    """  # noqa: S608 - of this script alone


def _duckdb(job: Job, only: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    import duckdb  # noqa: PLC0415 - each process has one system

    with tempfile.TemporaryDirectory(dir=job.folder) as scratch, duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{job.limit}B'")
        connection.execute(f"SET temp_directory = '{scratch}'")
        connection.execute(f"SET threads = {job.threads}")
        connection.execute("SET preserve_insertion_order = false")
        found = connection.sql(pairs_in_sql(job.folder, only))
        yield from pa.RecordBatchReader.from_stream(found)


def _polars(job: Job) -> Iterator[pa.Table]:
    import polars as pl  # noqa: PLC0415 - each process has one system

    second = pl.col("ts").dt.epoch("us") // WIDTH_US
    left = pl.scan_parquet(f"{job.folder}/trades/*.parquet")
    left = left.with_columns(bin=pl.concat_list(second, second - 1)).explode("bin")
    right = pl.scan_parquet(f"{job.folder}/quotes/*.parquet")
    right = right.with_columns(bin=second, ts_right="ts").drop("ts")
    age = pl.col("ts") - pl.col("ts_right")
    pairs = left.join(right, on=["sym", "bin"]).filter(
        age >= pl.duration(), age <= pl.duration(microseconds=WIDTH_US)
    )
    for frame in pairs.collect_batches(engine="streaming", maintain_order=False):
        yield frame.to_arrow()


def _read_alone(job: Job) -> int:
    rows = 0
    for side in ("trades", "quotes"):
        for batch in ds.dataset(f"{job.folder}/{side}").to_batches():
            rows += batch.num_rows
    return rows


def work(job: Job) -> dict[str, Any]:
    """Run a job in a separate process."""
    pa.set_cpu_count(job.threads)
    start, cpu = time.perf_counter(), time.process_time()
    counted = Counted()
    if job.system == "reading":
        counted.rows = _read_alone(job)
    else:
        sampled_alone = job.system == "sample"
        for batch in _duckdb(job, SAMPLE) if sampled_alone else batches_of(job):
            if job.digests:
                counted.add(batch)
            else:
                counted.rows += batch.num_rows
    return {
        "seconds": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        **dataclasses.asdict(counted),
    }


# Processes


def run(job: Job, seconds: float, most_rss: int) -> dict[str, Any]:
    """Run a job in a process, and sample its memory."""
    command = [sys.executable, __file__, "--job", json.dumps(dataclasses.asdict(job))]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(  # noqa: S603 - this script
            command, env=environment(job.threads), stdout=out, stderr=errors, text=True
        )
        start = time.perf_counter()
        samples: list[tuple[float, int]] = []
        ended = ""
        try:
            while process.poll() is None:
                now = time.perf_counter() - start
                rss = _rss(process.pid)
                samples.append((round(now, 2), rss))
                ended = OUT_OF_TIME if now > seconds else LIMIT_EXCEEDED if rss > most_rss else ""
                if ended:
                    break
                time.sleep(SAMPLED_EVERY_S)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        found: dict[str, Any] = {
            "system": job.system,
            "ended": ended,
            "peak_rss": max((rss for _, rss in samples), default=0),
            "samples": _thinned(samples),
        }
        out.seek(0)
        errors.seek(0)
        if process.returncode == 0:
            told: dict[str, Any] = json.loads(out.read())
            return found | told
        # A process that the kernel kills has no output.
        text = errors.read().strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        return found | {"ended": ended or text[0]}


def _thinned(samples: list[tuple[float, int]], most: int = 1000) -> list[tuple[float, int]]:
    """Return few enough samples to draw: the largest of each stretch."""
    width = -(-len(samples) // most) or 1
    return [
        max(samples[at : at + width], key=lambda one: one[1])
        for at in range(0, len(samples), width)
    ]


def _rss(pid: int) -> int:
    """Return the memory of a process in bytes, or 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line for line in lines if line.startswith("VmRSS:")]
    return int(found[0].split()[1]) * 1024 if found else 0


def _bytes(text: str) -> int:
    for unit, size in UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * size)
    message = f"expected a size such as 20GB or 200MB, got {text!r}"
    raise argparse.ArgumentTypeError(message)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--size", type=_bytes, default="20GB", help="total size of the files")
    parser.add_argument("--files", type=int, default=200, help="files per side")
    parser.add_argument(
        "--folder", type=Path, help="folder for the files; by default, a temporary folder"
    )
    parser.add_argument("--limit", type=_bytes, default="2GB", help="memory limit")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--repeat", type=int, default=1, help="number of runs per system")
    parser.add_argument("--seconds", type=float, default=1800, help="maximum seconds per system")
    parser.add_argument("--most-rss", type=_bytes, default="6GB", help="maximum memory per process")
    parser.add_argument("--out", type=Path, default=Path("benches/out/larger_than_memory.json"))
    parser.add_argument("--plot", type=Path, default=Path("benches/plots/larger_than_memory.svg"))
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser.parse_args()


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the text unchanged and shows defaults."""


def main() -> int:
    """Write the files, run the systems in turns, and compare, write and draw the results."""
    options = _arguments()
    if options.job:
        print(json.dumps(work(Job(**json.loads(options.job)))))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        made = make(folder, options.size, options.files)
        print(f"{made['rows']:,} rows in {2 * made['files']} files, {made['bytes'] / 1e9:.2f} GB")
        results = _measured(options, folder)
        checked = _checked(options, folder, results)
    findings = {
        "made": made,
        "limit": options.limit,
        "threads": options.threads,
        "results": results,
        "checked": checked,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(findings, indent=1) + "\n")
    larger_than_memory_plot.draw(findings, options.plot)
    return 0 if checked["same"] else 1


def _measured(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    results = []
    for _ in range(options.repeat):
        for system in options.systems.split(","):
            job = Job(system, str(folder), options.limit, options.threads)
            found = run(job, options.seconds, options.most_rss)
            results.append(found)
            rows = f"{found['rows']:,} rows, {found['seconds']:.1f} s" if "rows" in found else ""
            told = rows or f"did not end: {found['ended']}"
            print(f"{system:<10}{told}, at most {found['peak_rss'] / 1e6:,.0f} MB", flush=True)
    return results


def _checked(
    options: argparse.Namespace, folder: Path, results: list[dict[str, Any]]
) -> dict[str, Any]:
    """Compare all results with DuckDB's join of only a few symbols."""
    job = Job("sample", str(folder), options.limit, options.threads, digests=True)
    expected = run(job, options.seconds, options.most_rss)
    counts = {one["system"]: one["rows"] for one in results if "rows" in one}
    counts.pop("reading", None)
    names = ("sampled", "digest")
    same = "rows" in expected and "tidegate" in counts
    for system, rows in counts.items():
        found = run(
            dataclasses.replace(job, system=system),
            CHECKED_MORE * options.seconds,
            options.most_rss,
        )
        differs = [name for name in names if found.get(name) != expected.get(name)]
        differs += ["rows"] if len({rows, found.get("rows"), *counts.values()}) > 1 else []
        if differs:
            same = False
            print(f"{system} differs from DuckDB's join of {SAMPLE}: {', '.join(differs)}")
    if same:
        print(f"rows and digests of {', '.join(SAMPLE)} are equal: {expected['rows']:,} rows")
    return {"same": same, "symbols": SAMPLE, **{name: expected.get(name) for name in names}}


if __name__ == "__main__":
    sys.exit(main())
