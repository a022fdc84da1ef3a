"""Measures the designs from the multiway aggregation paper on the twelve queries of its Table 2.

The queries are from section 7.3 of the paper by Cederman, Gulisano, Nikolakopoulos,
Papatriantafilou and Tsigas. They aggregate consumption readings by meter and comments by song, and
distribute the streams over 1 to 20 inputs. The paper's 243 meters and its comments were not
published. Readings are therefore from the home meters in the Parquet file `--readings`, with the
columns meter, ts and load_kwh, and with hours instead of the paper's minutes. Comments are
generated for 40 000 songs, and some contain a mail address or an IP address. All designs are values
of `algorithm` of `tidegate.Aggregate`. One thread pushes `PUSH` rows per input in turn, and polls
after each turn. Results are compared before timing.

- throughput: rows per second if rows are pushed as fast as possible, and the shares of pushes,
  which add rows, and of polls, which merge rows, update windows and return results
- latency: the median time from the push of a turn to its results at that rate
- latency at a rate (`--rates`): turns are pushed when due; the median and 99th percentile of the
  time from a row's push until it is aggregated and final results are built, as `stats()` reports it

    python benches/w4_designs.py --readings readings.parquet --json benches/out/w4_designs.json
    python benches/w4_plot.py benches/out/w4_designs.json benches/plots/w4.svg
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidegate
from tidegate import agg

if TYPE_CHECKING:
    from tidegate.types import Algorithm

PUSH = 512
SONGS = 40_000
DESIGNS: tuple[Algorithm, ...] = ("slices", "mq", "mq-lf", "tumlsc", "tumlmc", "wiml")
MAIL = r"text REGEXP '[[:alnum:]._-]+@[[:alnum:]-]+[.][[:alpha:]]+'"
ADDRESS = r"text REGEXP '([0-9]{1,3}[.]){3}[0-9]{1,3}'"
EITHER = f"{MAIL} OR {ADDRESS}"


@dataclasses.dataclass(frozen=True)
class Run:
    """The seconds of a run, of its pushes and of turns with results, and the results."""

    seconds: float
    pushes: float
    waits: list[float]
    found: list[pa.RecordBatch]


@dataclasses.dataclass(frozen=True)
class Query:
    """A row of Table 2."""

    name: str
    comments: bool
    size: int
    advance: int
    function: agg.Aggregate


def order_sensitive_and_not(
    name: str,
    windows: tuple[int, int],
    functions: tuple[agg.Aggregate, agg.Aggregate],
    **data: bool,
) -> list[Query]:
    """Return the two queries with one letter."""
    return [
        Query(f"{name}-{kind}", size=windows[0], advance=windows[1], function=function, **data)
        for kind, function in zip(("OS", "OI"), functions, strict=True)
    ]


FIRST, MEAN = agg.first("load_kwh"), agg.mean("load_kwh")
QUERIES = [
    *order_sensitive_and_not("k", (30, 3), (FIRST, agg.count()), comments=False),
    *order_sensitive_and_not("K", (30, 3), (agg.first("text"), agg.count()), comments=True),
    *order_sensitive_and_not("w", (20, 2), (FIRST, MEAN), comments=False),
    *order_sensitive_and_not("W", (40, 2), (FIRST, MEAN), comments=False),
    *order_sensitive_and_not(
        "f", (20, 2), (agg.first("text", where=MAIL), agg.count(where=MAIL)), comments=True
    ),
    *order_sensitive_and_not(
        "F", (20, 2), (agg.first("text", where=EITHER), agg.count(where=EITHER)), comments=True
    ),
]


def readings(path: Path) -> pa.Table:
    """Return hours, meters and readings, in time order."""
    table = pq.read_table(path, columns=["meter", "ts", "load_kwh"])
    hours = table["ts"].cast(pa.timestamp("ms", table["ts"].type.tz)).cast(pa.int64()).to_numpy()
    columns = {"ts": hours // 3_600_000, "key": table["meter"].cast(pa.string())}
    columns["load_kwh"] = table["load_kwh"].cast(pa.float64())
    return pa.table(columns).sort_by([("ts", "ascending"), ("key", "ascending")])


def comments(rows: int) -> pa.Table:
    """Generate comments on songs; some contain a mail address or an IP address."""
    rng = np.random.Generator(np.random.PCG64(42))
    words = np.array(["love", "this", "track", "great", "drop", "at", "1:23", "more", "bass", "!"])
    texts = [" ".join(chosen) for chosen in words[rng.integers(0, len(words), (rows, 8))]]
    kinds = rng.random(rows)
    for row in np.flatnonzero(kinds < 0.05):  # noqa: PLR2004
        texts[row] += f" write to fan.{row}@music-mail.org"
    for row in np.flatnonzero(kinds > 0.98):  # noqa: PLR2004
        texts[row] += f" join 10.{row % 256}.{row // 256 % 256}.7"
    steps = np.cumsum(rng.integers(0, 2, rows))
    return pa.table({"ts": steps // 50, "key": rng.integers(0, SONGS, rows), "text": texts})


def inputs(table: pa.Table, count: int) -> list[list[pa.RecordBatch]]:
    """Return the rows of each input in batches; a key can be in several inputs, as in a mesh."""
    of = np.random.Generator(np.random.PCG64(count)).integers(0, count, table.num_rows)
    streams = [table.filter(pa.array(of == one)).combine_chunks() for one in range(count)]
    return [stream.to_batches(max_chunksize=PUSH) for stream in streams]


def aggregate(
    query: Query, schema: pa.Schema, sources: int, design: Algorithm, threads: int
) -> tidegate.Aggregate:
    """Return an aggregation without rows."""
    return tidegate.Aggregate(
        schema,
        on="ts",
        size=query.size,
        advance=query.advance,
        by="key",
        aggs={"value": query.function},
        sources=sources,
        algorithm=design,
        threads=threads,
    )


def run(
    windows: tidegate.Aggregate, batches: list[list[pa.RecordBatch]], rate: float | None = None
) -> Run:
    """Push all rows in turns, as fast as possible or at a rate, and poll after each turn."""
    found: list[pa.RecordBatch] = []
    waits, pushes, rows = [], 0.0, 0
    start = time.perf_counter()
    for turn in itertools.zip_longest(*batches):
        if rate is not None:
            time.sleep(max(0.0, start + rows / rate - time.perf_counter()))
        began = time.perf_counter()
        for source, batch in zip(windows.sources, turn, strict=True):
            if batch is None:
                source.close()
            else:
                rows += batch.num_rows
                source.push(batch)
        pushes += time.perf_counter() - began
        ready = list(iter(windows.poll, None))
        if ready:
            waits.append(time.perf_counter() - began)
        found += ready
    for source in windows.sources:
        source.close()
    found += windows
    return Run(time.perf_counter() - start, pushes, waits, found)


def checksum(batches: list[pa.RecordBatch]) -> tuple[int, float]:
    """Return the number of rows, and a checksum of their values in order."""
    table = pa.Table.from_batches(batches)
    values = table["value"]
    if pa.types.is_string(values.type):
        values = pc.binary_length(values)
    places = pa.array(np.arange(1, table.num_rows + 1) % 97)
    return table.num_rows, float(
        pc.sum(pc.multiply(values.cast(pa.float64()), places)).as_py() or 0
    )


def at_rate(
    windows: tidegate.Aggregate, batches: list[list[pa.RecordBatch]], rate: float
) -> dict[str, float]:
    """Return the latency of rows that are pushed at a rate, and the actual rate."""
    done = run(windows, batches, rate)
    latency = windows.stats()["latency"]
    rows = sum(batch.num_rows for source in batches for batch in source)
    median, p99, _ = latency or (0.0, 0.0, 0.0)
    reached = rows / done.seconds
    shown = f"{1_000 * median:.2f} ms, 99 %: {1_000 * p99:.2f} ms"
    print(f"  at {rate:,.0f} rows/s ({reached:,.0f}): {shown}", flush=True)
    return {"rate": rate, "reached": reached, "median_s": median, "p99_s": p99}


def main() -> None:
    """Measure every query, number of inputs and design, and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--readings", type=Path, required=True, help="Parquet file with the readings"
    )
    parser.add_argument("--comments", type=int, default=100_000, help="number of rows to generate")
    parser.add_argument("--inputs", type=int, nargs="+", default=[1, 5, 10, 20])
    parser.add_argument("--queries", nargs="+", default=[query.name for query in QUERIES])
    parser.add_argument("--designs", nargs="+", default=DESIGNS)
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="rows per second")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args()
    tables = {False: readings(given.readings), True: comments(given.comments)}
    points = []
    print("| query | inputs | design | rows/s | latency, ms | in pushes | result rows |")
    print("| --- | --: | --- | --: | --: | --: | --: |")
    for query in (query for query in QUERIES if query.name in given.queries):
        table = tables[query.comments]
        for count in given.inputs:
            batches = inputs(table, count)
            expected = None
            for design in given.designs:
                new = partial(aggregate, query, table.schema, count, design, given.threads)
                runs = [run(new(), batches) for _ in range(given.repeat)]
                for one in runs:
                    expected = expected or checksum(one.found)
                    if checksum(one.found) != expected:
                        message = f"{query.name}, {design}: {checksum(one.found)}, not {expected}"
                        raise RuntimeError(message)
                best = sorted(runs, key=lambda one: one.seconds)[len(runs) // 2]
                wait = statistics.median(best.waits) if best.waits else None
                point = {"query": query.name, "inputs": count, "design": design}
                point |= {"rows/s": table.num_rows / best.seconds, "latency_s": wait}
                point |= {"push_s": best.pushes, "poll_s": best.seconds - best.pushes}
                shown = "-" if wait is None else f"{1_000 * wait:.2f}"
                share = f"{best.pushes / best.seconds:.0%}"
                rows = f"{expected[0]:,}" if expected else "0"
                line = f"| {query.name} | {count} | {design} | {point['rows/s']:,.0f} | {shown}"
                print(f"{line} | {share} | {rows} |", flush=True)
                point["rates"] = [at_rate(new(), batches, rate) for rate in given.rates]
                points.append(point)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(points, indent=1))


if __name__ == "__main__":
    main()
