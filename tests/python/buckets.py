"""Buckets of streams without Spark, fed by PySpark's in-memory test double of its state store."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from tidegate.spark.stream import store
from tidegate.spark.stream.operators import Work


def us(steps: int) -> np.timedelta64:
    """Convert microseconds to a duration."""
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
    """A bucket in a stream, and its output."""

    def __init__(self, work: Work, number: int = 0) -> None:
        self.number = number
        self.tester = TwsTester(
            store.Processor(work, (*range(number + 1),)),
            timeMode="EventTime",
            eventTimeExtractor=lambda _: 2**62,
        )
        self.output: list[Row] = []
        # The numbers of the last micro-batch, in at most one dict.
        self.numbers: list[dict[str, Any]] = []

    def batch(self, watermark: int, *packs: Row) -> None:
        """Process a micro-batch. Like Spark, report expired timers after the input."""
        self.tester._currentWatermarkMs = watermark // 1000
        self.tester.handle.setWatermark(watermark // 1000)
        found = self.tester.test(self.number, list(packs)) if packs else []
        found += self.tester._handleExpiredTimers()
        self.output += [row for row in found if row.rows is not None]
        self.numbers = [row.asDict() for row in found if row.rows is None]

    @property
    def entries(self) -> dict[Any, Any]:
        """Return the entries in the store that have rows."""
        found = self.tester.peekMapState("entries", self.number)
        return {key: entry for key, entry in found.items() if key != store._HEADER}

    @property
    def header(self) -> store.Header | None:
        """Return the header of the bucket from the store."""
        found = self.tester.peekMapState("entries", self.number).get(store._HEADER)
        return None if found is None else store.read_header(found)


def counted(found: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in found)
