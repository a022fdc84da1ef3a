"""Joins the partitions of a growing log exactly once, even after a `kill -9`.

    python python/examples/partitioned_log.py FOLDER

The folder contains a log with the partitions of two topics, orders and payments. As in a message
broker, rows are appended to partitions, and readers start at an offset. Each partition is a file.
The first run writes the log. The script joins each payment with the same customer's orders from the
preceding minute, and writes the pairs to a database in FOLDER. You can kill the process at any time
and start it again.

Two properties make this safe:

- A partition's offset is the number of rows pushed into its source (the source's `rows_in`).
  Snapshots contain this number, so the operator and the offsets are always consistent.
- The pairs and the snapshot taken after them are written in one transaction.
"""

import argparse
import itertools
import json
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate as tg

ORDERS = pa.schema([("ts", pa.int64()), ("customer", pa.string()), ("item", pa.int64())])
PAYMENTS = pa.schema([("ts", pa.int64()), ("customer", pa.string()), ("amount", pa.int64())])
PARTITIONS = [("orders", 0), ("orders", 1), ("payments", 0)]

# The number of seconds by which a row may be older than an earlier row in the same partition.
LATENESS = 5

# The maximum number of rows to read from a partition at a time.
MOST = 50


class Log:
    """A partitioned log to which rows can be appended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, topic: str, partition: int) -> Path:
        """Return the path of a partition's file."""
        return self.folder / f"{topic}-{partition}.jsonl"

    def append(self, topic: str, partition: int, rows: list[dict[str, Any]]) -> None:
        """Add rows to a partition."""
        with self.path(topic, partition).open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def read(self, topic: str, partition: int, offset: int) -> list[dict[str, Any]]:
        """Return a partition's next rows from an offset, or no rows at its end."""
        with self.path(topic, partition).open() as file:
            return [json.loads(line) for line in itertools.islice(file, offset, offset + MOST)]


def produced(seed: int, value: str) -> Iterator[dict[str, Any]]:
    """Yield a partition's rows, some of which are a few seconds late."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    for ts in range(0, 3_000, 3):
        customer = f"customer {draw.randrange(20)}"
        yield {"ts": ts - draw.randrange(LATENESS), "customer": customer, value: ts}


def fill(log: Log) -> None:
    """Write the log if it does not exist yet."""
    if log.folder.exists():
        return
    unfinished = Log(log.folder.with_name(f"{log.folder.name}.unfinished"))
    unfinished.folder.mkdir(parents=True, exist_ok=True)
    for seed, (topic, partition) in enumerate(PARTITIONS):
        unfinished.path(topic, partition).unlink(missing_ok=True)
        value = "item" if topic == "orders" else "amount"
        unfinished.append(topic, partition, list(produced(seed, value)))
    unfinished.folder.rename(log.folder)


def made() -> tg.IntervalJoin:
    """Create the join, with one source per partition."""
    return tg.IntervalJoin(
        PAYMENTS,
        ORDERS,
        on="ts",
        by="customer",
        lower=-60,
        upper=0,
        how="left",
        sources=(1, 2),
        lateness=LATENESS,
    )


def restored(database: sqlite3.Connection) -> tg.IntervalJoin:
    """Return the join, restored to the state that the last transaction saved."""
    with database:
        database.execute("create table if not exists pairs (ts, customer, amount, item)")
        database.execute("create table if not exists state (id primary key, snapshot)")
    join = made()
    for (snapshot,) in database.execute("select snapshot from state"):
        join.restore(snapshot)
    return join


def step(join: tg.IntervalJoin, log: Log) -> bool:
    """Push each partition's next rows, and return whether there were any."""
    offsets = [source["rows_in"] for source in join.stats()["sources"]]
    payments, orders_0, orders_1 = join.sources
    feeds = zip([orders_0, orders_1, payments], PARTITIONS, strict=True)
    has_more = False
    for source, (topic, partition) in feeds:
        if rows := log.read(topic, partition, offsets[source.number]):
            source.push(rows)
            has_more = True
    return has_more


def commit(join: tg.IntervalJoin, database: sqlite3.Connection) -> None:
    """Write the final pairs and the resulting state in one transaction."""
    columns = ["ts", "customer", "amount", "item"]
    with database:
        for batch in iter(join.poll, None):
            rows = batch.select(columns).to_pylist()
            database.executemany("insert into pairs values (:ts, :customer, :amount, :item)", rows)
        database.execute("replace into state values (0, ?)", [join.snapshot()])


def run(folder: Path, pause: float) -> int:
    """Join the entire log, and return the number of pairs."""
    log = Log(folder / "log")
    fill(log)
    with closing(sqlite3.connect(folder / "pairs.sqlite")) as database:
        join = restored(database)
        while step(join, log):
            commit(join, database)
            time.sleep(pause)
        # A service would wait for more rows here, but this log ends.
        for source in join.sources:
            source.close()
        commit(join, database)
        (count,) = database.execute("select count(*) from pairs").fetchone()
        return int(count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Join the partitions of a log.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(run(options.folder, options.pause), "pairs")
