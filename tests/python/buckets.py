"""Buckets of streams without Spark: fed by PySpark's own in-memory stand-in for its state store."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from tidegate.spark.stream import store
from tidegate.spark.stream.operators import Work


def us(steps: int) -> np.timedelta64:
    """A length of microseconds."""
    return np.timedelta64(steps, "us")


def pack(side: int, table: pa.Table) -> Row:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return Row(side=side, rows=sink.getvalue().to_pybytes())


def read(output: list[Row], late: int | None) -> list[dict[str, Any]]:
    chosen = [row.rows for row in output if row.late == late]
    return [row for rows in chosen for row in pa.ipc.open_stream(rows).read_all().to_pylist()]


class Bucket:
    """A bucket in a stream, and what came out of it."""

    def __init__(self, work: Work, number: int = 0) -> None:
        self.number = number
        self.tester = TwsTester(
            store.Processor(work, (*range(number + 1),)),
            timeMode="EventTime",
            eventTimeExtractor=lambda _: 2**62,
        )
        self.output: list[Row] = []
        # Of the last micro-batch, one dict at most.
        self.numbers: list[dict[str, Any]] = []

    def batch(self, watermark: int, *packs: Row) -> None:
        """A micro-batch. Spark, too, tells of expired timers after the input."""
        self.tester._currentWatermarkMs = watermark // 1000
        self.tester.handle.setWatermark(watermark // 1000)
        found = self.tester.test(self.number, list(packs)) if packs else []
        found += self.tester._handleExpiredTimers()
        self.output += [row for row in found if row.rows is not None]
        self.numbers = [row.asDict() for row in found if row.rows is None]

    @property
    def entries(self) -> dict[Any, Any]:
        """The entries in the store that have rows."""
        found = self.tester.peekMapState("entries", self.number)
        return {key: entry for key, entry in found.items() if key != store._HEADER}

    @property
    def header(self) -> store.Header | None:
        """What the store says of the bucket as a whole."""
        found = self.tester.peekMapState("entries", self.number).get(store._HEADER)
        return None if found is None else store.read_header(found)


def counted(found: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in found)
