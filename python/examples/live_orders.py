"""How old are executed orders? Joins the live orders of a stock exchange with Structured Streaming.

A simulated feed writes files with submitted and executed orders to two folders. Some rows are five
seconds late. Two queries read the folders. `tidegate.spark.interval_join` pairs every execution
with the submissions for the same stock in the preceding second. `tidegate.spark.aggregate` counts
each stock's executions in ten-second windows. Each micro-batch writes its results to a separate
Parquet folder, which is overwritten if the batch is repeated. A self-refreshing page in the browser
shows rows, latency and watermarks. At the end, the pairs and windows are compared with
`tidegate.interval_join` and `tidegate.aggregate` over all rows that arrived in time.

    python python/examples/live_orders.py --folder live
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import tidegate
import tidegate.spark
from tidegate import agg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

DATA = Path(__file__).parents[2] / "tests" / "data" / "alliancedb"
FILES = {"executions": "stock_60s_r_cj.parquet", "submissions": "stock_60s_s_sb.parquet"}

# The date is arbitrary, because times in the data are milliseconds since its start.
BEGIN = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)

# The seconds of exchange data per file, and the delay of late rows in seconds.
SLICE = 3
DELAYED = 5

JOIN: dict[str, Any] = {"on": "ts", "by": "stock", "lower": "-1s", "upper": "0s"}
WINDOWS: dict[str, Any] = {
    "on": "ts",
    "by": "stock",
    "size": "10s",
    "advance": "2s",
    "aggs": {"executions": agg.count(), "newest": agg.max("row")},
}
QUERIES = ("pairs", "windows")


def main() -> None:
    """Run the example in a separate Spark session."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("live"), help="this folder is replaced")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of exchange data")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between files")
    arguments = parser.parse_args()
    with session() as spark:
        run(spark, arguments.folder, arguments.seconds, arguments.pace)


def run(spark: SparkSession, folder: Path, seconds: int, pace: float) -> None:
    """Start the feed and the queries, update the page, and check the results."""
    # Stream joins require this state store. The number of state partitions equals the number of
    # cores.
    tidegate.spark.configure(spark)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    shutil.rmtree(folder, ignore_errors=True)
    feed = Feed(folder, seconds)
    feed.drop(0)
    page = Page(folder)
    queries = started(spark, folder, page)
    print(f"{page.path.resolve().as_uri()} shows orders and executions as they arrive")
    threading.Thread(target=feed.run, args=(pace,), daemon=True).start()
    while not feed.ended.wait(0.1):
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
    for query in queries:
        query.processAllAvailable()
    page.write(queries)
    for query in queries:
        query.stop()
    check_pairs(spark, folder, feed)
    check_windows(spark, folder, feed)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark on two cores of this machine."""
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17 or later: install it, or set JAVA_HOME")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("live orders")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def started(spark: SparkSession, folder: Path, page: Page) -> list[StreamingQuery]:
    """Start the queries that read the feed's files and write Parquet files."""
    executions, submissions = (
        spark.readStream.schema("stock int, ts timestamp, row long")
        .parquet(str(folder / "landed" / name))
        .withWatermark("ts", "2 seconds")
        for name in FILES
    )
    pairs = tidegate.spark.interval_join(
        executions, submissions, **JOIN, late_as="late", suffix="_submitted"
    )
    windows = tidegate.spark.aggregate(executions, **WINDOWS, late_as="late")

    def start(name: str, found: DataFrame) -> StreamingQuery:
        def keep(frame: DataFrame, batch: int) -> None:
            path = str(folder / name / f"batch={batch}")
            # If the query stopped before it committed this batch, the same rows are written again.
            frame.write.mode("overwrite").parquet(path)
            page.add(name, batch, spark.read.parquet(path).toArrow())
            page.write(spark.streams.active)

        writer = found.writeStream.queryName(name).foreachBatch(keep)
        return writer.option("checkpointLocation", str(folder / "checkpoints" / name)).start()

    return [start(*query) for query in zip(QUERIES, (pairs, windows), strict=True)]


class Feed:
    """Writes one file per side for every `SLICE` seconds of exchange data."""

    def __init__(self, folder: Path, seconds: int) -> None:
        """Read the data, and choose the rows that arrive late."""
        self.folder = folder
        self.slices = -(-seconds // SLICE)
        self.sides = {name: self._side(file, seconds) for name, file in FILES.items()}
        self.ended = threading.Event()

    @staticmethod
    def _side(file: str, seconds: int) -> pa.Table:
        table = pq.read_table(DATA / file)
        table = table.filter(pc.less(table["ts_ms"], 1_000 * seconds))
        since = table["ts_ms"].to_numpy()
        # One row in 200 is late.
        delayed = np.random.default_rng(1).random(len(since)) < 1 / 200
        ts = pa.array(np.datetime64(BEGIN.replace(tzinfo=None), "us") + since * 1_000)
        return pa.table(
            {
                "stock": table["key"],
                "ts": ts.cast(pa.timestamp("us", "UTC")),
                "row": np.arange(len(since)),
                "arrives": since + 1_000 * DELAYED * delayed,
            }
        )

    def run(self, pace: float) -> None:
        """Write all files except the first."""
        for number in range(1, self.slices + 1):
            time.sleep(pace)
            self.drop(number)
        self.ended.set()

    def drop(self, number: int) -> None:
        """Write the files for a slice; the last slice contains all remaining rows."""
        for name, table in self.sides.items():
            slices = pc.divide(table["arrives"], SLICE * 1_000)
            is_last = number == self.slices
            chosen = (pc.greater_equal if is_last else pc.equal)(slices, number)
            folder = self.folder / "landed" / name
            folder.mkdir(parents=True, exist_ok=True)
            # Spark ignores hidden files, so a file is renamed when it is complete.
            path = folder / f".{number:04}.parquet"
            pq.write_table(table.filter(chosen).drop_columns(["arrives"]), path)
            path.rename(folder / path.name.removeprefix("."))


@dataclass
class Page:
    """The page that the browser shows."""

    folder: Path
    batches: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    seconds: dict[int, int] = field(default_factory=dict)
    busiest: str = ""
    # Every query runs in a separate thread.
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> Path:
        """Return the path of the page."""
        return self.folder / "index.html"

    def add(self, query: str, batch: int, rows: pa.Table) -> None:
        """Count the rows in a micro-batch."""
        found = rows.filter(rows["late"].is_null())
        with self.lock:
            self.batches[query, batch] = found.num_rows, rows.num_rows - found.num_rows
            if query == "windows":
                self._add_windows(found)
                return
            for ts in found["ts"].to_pylist():
                second = int((ts - BEGIN).total_seconds())
                self.seconds[second] = self.seconds.get(second, 0) + 1

    def _add_windows(self, found: pa.Table) -> None:
        newest = found.filter(pc.equal(found["window_start"], pc.max(found["window_start"])))
        if newest.num_rows:
            most = newest.sort_by([("executions", "descending")]).slice(0, 5).to_pylist()
            since, until = (f"{most[0][f'window_{end}']:%H:%M:%S}" for end in ("start", "end"))
            stocks = ", ".join(f"{row['stock']} ({row['executions']})" for row in most)
            self.busiest = f"Most executions from {since} to {until}: {stocks}"

    def write(self, queries: Sequence[StreamingQuery]) -> None:
        """Rewrite the page."""
        with self.lock:
            lines = [line for query in queries for line in self._lines(query)]
            pairs = [count for (name, _), count in self.batches.items() if name == "pairs"]
            text = PAGE.format(
                head=_line("th", ("batch", "rows in", "out", "late", "took", "watermark")),
                lines="\n".join(lines),
                pairs=f"{sum(found for found, _ in pairs):,}",
                late=f"{sum(late for _, late in pairs):,}",
                chart=self._chart(),
                busiest=escape(self.busiest),
            )
            new = self.path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(self.path)

    def _lines(self, query: StreamingQuery) -> Iterator[str]:
        """Yield table rows for a query's micro-batches, newest first."""
        yield f'<tr><th colspan="6">{query.name}</th></tr>'
        for progress in reversed(query.recentProgress):
            found, late = self.batches.get((str(query.name), progress["batchId"]), (0, 0))
            watermark = progress["eventTime"].get("watermark", "")
            cells = (
                progress["batchId"],
                f"{progress['numInputRows']:,}",
                f"{found:,}",
                f"{late:,}",
                f"{progress['batchDuration']:,} ms",
                watermark[11:19],
            )
            yield _line("td", cells)

    def _chart(self) -> str:
        """Draw the pairs per second of exchange data as bars."""
        most = max(self.seconds.values(), default=1)
        bars = []
        for second, count in sorted(self.seconds.items()):
            height = 120 * count / most
            bars.append(
                f'<rect x="{second * 10}" y="{130 - height:.1f}" width="8" height="{height:.1f}">'
                f"<title>second {second}: {count:,} pairs</title></rect>"
            )
        return "".join(bars)


def _line(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(str(cell))}</{kind}>' for cell in cells)}</tr>"


PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="1">
<title>Live orders</title>
<style>
body {{ font: 15px system-ui, sans-serif; margin: 2em; color: #222 }}
td, th {{ padding: 2px 14px; text-align: right; font-variant-numeric: tabular-nums }}
th {{ border-bottom: 1px solid #999 }}
rect {{ fill: #2a6f97 }}
</style>
<h1>Executions, with the orders of the second before</h1>
<p>{pairs} pairs, {late} late rows. Pairs per second of exchange data:</p>
<svg width="640" height="132" viewBox="0 0 640 132">{chart}</svg>
<p>{busiest}</p>
<table>
{head}
{lines}
</table>
</html>
"""


def check_windows(spark: SparkSession, folder: Path, feed: Feed) -> None:
    """Exit unless the windows equal those aggregated from all rows that arrived in time."""
    rows = spark.read.parquet(str(folder / "windows")).toArrow()
    late = rows.filter(pc.is_valid(rows["late"]))["late"].combine_chunks()
    found = rows.filter(pc.is_null(rows["late"])).drop_columns(["late", "batch"])
    executions = feed.sides["executions"]
    gone = pc.struct_field(late, ["row", "row"])
    in_time = executions.filter(pc.invert(pc.is_in(executions["row"], gone)))
    expected = tidegate.aggregate(in_time, **WINDOWS)
    # Windows after this time have not been emitted yet.
    expected = expected.filter(pc.less_equal(expected["window_end"], pc.max(found["window_end"])))
    order = [("window_start", "ascending"), ("stock", "ascending")]
    if not found.sort_by(order).cast(expected.schema).equals(expected.sort_by(order)):
        sys.exit("the windows differ; this is a bug in tidegate; please report it")
    print(f"{found.num_rows:,} windows, equal to the aggregated table")


def check_pairs(spark: SparkSession, folder: Path, feed: Feed) -> None:
    """Exit unless the pairs equal those joined from all rows that arrived in time."""
    found = spark.read.parquet(str(folder / "pairs")).toArrow()
    late = found.filter(pc.is_valid(found["late"]))
    pairs = found.filter(pc.is_null(found["late"]))
    sides = []
    for side, row, table in zip(
        ("left", "right"), ("row", "row_submitted"), feed.sides.values(), strict=True
    ):
        gone = late.filter(pc.equal(late["late"], side))[row]
        sides.append(table.filter(pc.invert(pc.is_in(table["row"], gone.combine_chunks()))))
    expected = tidegate.interval_join(*sides, **JOIN, suffix="_submitted")
    # Rows as new as the watermark are not final yet, so they have not been emitted.
    last = pc.max(pairs["ts"])
    expected = expected.filter(pc.less_equal(expected["ts"], last))
    places = [("row", "ascending"), ("row_submitted", "ascending")]
    names = ["row", "row_submitted"]
    if not pairs.select(names).sort_by(places).equals(expected.select(names).sort_by(places)):
        sys.exit("the pairs differ; this is a bug in tidegate; please report it")
    ages = pc.subtract(pairs["ts"].cast(pa.int64()), pairs["ts_submitted"].cast(pa.int64()))
    print(f"{pairs.num_rows:,} pairs, as in a join of tables; {late.num_rows:,} rows were late")
    print(f"paired orders are {pc.mean(ages).as_py() / 1_000:.0f} ms old on average")


if __name__ == "__main__":
    main()
