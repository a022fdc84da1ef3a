"""The writes of a stream's bucket to the state store, and the stores that it refuses. No Spark."""

import dataclasses

import pyarrow as pa
import pytest

import tidegate

pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark before 4.2 has no such test double"
)

from buckets import Bucket, pack, read
from test_spark_state import SCHEMA, SECOND, one_row, sides
from tidegate.spark.stream import store
from tidegate.spark.worker.pack import LEFT, RIGHT

# A left row of second 10 pairs with right rows of seconds 5 to 10.
INNER = sides("inner", -5 * SECOND, 0)


def header(bucket: Bucket) -> store.Header:
    found = bucket.header
    assert found is not None
    return found


def timers(bucket: Bucket) -> list[int]:
    return list(bucket.tester.handle._timers.listTimers(0))


def test_state_of_another_format_is_refused() -> None:
    bucket = Bucket(INNER)
    bucket.batch(0, pack(LEFT, one_row(10)))
    other = header(bucket)._replace(format=store._FORMAT + 1)
    bucket.tester.handle.setGroupingKey(0)
    bucket.tester.processor._put(other)
    with pytest.raises(tidegate.StateError, match="different version of tidegate wrote it"):
        bucket.batch(0, pack(LEFT, one_row(11)))


def test_state_of_a_format_that_had_its_header_elsewhere_is_refused() -> None:
    bucket = Bucket(INNER)
    bucket.batch(0, pack(LEFT, one_row(10)))
    bucket.tester.updateMapState("entries", 0, dict(bucket.entries))
    assert bucket.header is None
    assert sorted(bucket.entries) == [(0,)]
    with pytest.raises(tidegate.StateError, match="different version of tidegate wrote it"):
        bucket.batch(0, pack(LEFT, one_row(11)))


def test_a_store_that_lacks_an_entry_is_refused() -> None:
    bucket = Bucket(INNER)
    for second in (10, 11, 12):
        bucket.batch(0, pack(LEFT, one_row(second)))
    kept = {entry: rows for entry, rows in bucket.entries.items() if entry != (1,)}
    assert sorted(kept) == [(0,), (2,)]
    whole = bucket.tester.peekMapState("entries", 0)
    bucket.tester.updateMapState("entries", 0, {**kept, store._HEADER: whole[store._HEADER]})
    # An operator in memory needs no entries, but a new one does.
    bucket.batch(0, pack(LEFT, one_row(13)))
    store._warm.clear()
    with pytest.raises(tidegate.StateError, match=r"lacks entry 1 of .* entries 0 to 4"):
        bucket.batch(0, pack(LEFT, one_row(14)))


def test_the_header_says_what_the_store_has() -> None:
    bucket = Bucket(INNER)
    bucket.batch(0, pack(LEFT, one_row(10)))
    first = header(bucket)
    assert first[:5] == (store._FORMAT, "1 q", 0, 1, store._NONE)
    assert first.version
    bucket.batch(11 * SECOND, pack(RIGHT, one_row(12)))
    second = header(bucket)
    assert second[:5] == (store._FORMAT, "1 q", 1, 2, 11 * SECOND)
    assert second.version != first.version
    assert sorted(bucket.entries) == [(1,)]


def test_a_row_at_the_watermark_is_in_time_and_one_before_it_is_late() -> None:
    bucket = Bucket(INNER)
    bucket.batch(10 * SECOND, pack(LEFT, one_row(10)), pack(LEFT, one_row(9)))
    assert [row["v"] for row in read(bucket.output, LEFT)] == [9]
    bucket.batch(10 * SECOND, pack(RIGHT, one_row(10)))
    bucket.batch(11 * SECOND)
    assert len(read(bucket.output, None)) == 1


@pytest.mark.parametrize("forgetful", [False, True], ids=["warm", "moved"])
def test_a_pair_of_a_row_at_the_watermark_comes_once(*, forgetful: bool) -> None:
    bucket = Bucket(INNER)
    bucket.batch(0, pack(RIGHT, one_row(9)))
    for watermark, more, found in (
        (10, one_row(10), 0),
        (10, one_row(30), 0),
        (12, one_row(31), 1),
    ):
        if forgetful:
            store._warm.clear()
        bucket.batch(watermark * SECOND, pack(LEFT, more))
        assert len(read(bucket.output, None)) == found


@pytest.mark.parametrize("forgetful", [False, True], ids=["warm", "moved"])
def test_a_row_just_before_the_watermark_comes_once(*, forgetful: bool) -> None:
    bucket = Bucket(sides("left", -5 * SECOND, 0))
    row = pa.table([[1], [10 * SECOND - 1], [7]], schema=SCHEMA)
    bucket.batch(0, pack(LEFT, row))
    for watermark in (10, 11, 12):
        if forgetful:
            store._warm.clear()
        bucket.batch(watermark * SECOND)
    assert [row["v"] for row in read(bucket.output, None)] == [7]
    assert bucket.entries == {}


def test_late_rows_come_out_only_where_they_are_asked_for() -> None:
    bucket = Bucket(dataclasses.replace(INNER, keeps_late=False))
    bucket.batch(10 * SECOND, pack(LEFT, one_row(9)), pack(RIGHT, one_row(8)))
    assert bucket.output == []


def test_copies_of_rows_pair_like_rows_at_home_and_are_never_reported_late() -> None:
    copied = len(INNER.schemas)
    bucket = Bucket(INNER)
    bucket.batch(10 * SECOND, pack(copied + LEFT, one_row(10)), pack(copied + RIGHT, one_row(9)))
    bucket.batch(10 * SECOND, pack(RIGHT, one_row(10)))
    bucket.batch(11 * SECOND)
    assert [row.late for row in bucket.output] == [None]
    assert len(read(bucket.output, None)) == 1


@pytest.mark.parametrize("forgetful", [False, True], ids=["warm", "moved"])
def test_an_entry_stays_as_long_as_one_of_its_rows_can_matter(*, forgetful: bool) -> None:
    bucket = Bucket(INNER)
    # A right row matters for five seconds, so the entry of second 10 stays until watermark 15.
    bucket.batch(0, pack(RIGHT, one_row(10)))
    # A left row matters until its time has passed, but entries are removed in order.
    bucket.batch(0, pack(LEFT, one_row(12)))
    for watermark, kept in ((15, [(0,), (1,)]), (16, [])):
        if forgetful:
            store._warm.clear()
        bucket.batch(watermark * SECOND)
        assert sorted(bucket.entries) == kept
    assert bucket.header is None


def test_a_timer_waits_for_the_next_watermark_and_there_is_one() -> None:
    bucket = Bucket(INNER)
    bucket.batch(0, pack(LEFT, one_row(20)))
    assert timers(bucket) == [1]
    bucket.batch(10 * SECOND, pack(LEFT, one_row(21)))
    assert timers(bucket) == [10_001]
    bucket.batch(12 * SECOND)
    assert timers(bucket) == [12_001]
    bucket.batch(30 * SECOND)
    assert timers(bucket) == []


def test_a_null_time_is_named_by_its_column() -> None:
    bucket = Bucket(INNER)
    table = pa.table([[1], [None], [0]], schema=SCHEMA)
    with pytest.raises(tidegate.TidegateError, match="left: column 'ts' has a null"):
        bucket.batch(0, pack(LEFT, table))


def test_stored_rows_are_the_rows() -> None:
    [rows] = (
        pa.concat_tables([one_row(second) for second in range(500)]).combine_chunks().to_batches()
    )
    stored = store._packed(rows)
    assert store._unpacked(stored, SCHEMA).equals(rows)
    assert int.from_bytes(stored[:8], "little") == rows.serialize().size
    assert len(stored) < rows.serialize().size / 2


@pytest.mark.parametrize(
    ("spark", "ours", "timer"),
    [(-1, store._NONE, 1), (0, store._NONE, 1), (1, 1_000, 2), (1_700, 1_700_000, 1_701)],
)
def test_watermarks_are_microseconds_and_timers_the_next_millisecond(
    spark: int, ours: int, timer: int
) -> None:
    assert store._micros(spark) == ours
    assert store._next_timer(ours) == timer
    assert store._next_timer(max(ours, 0) + 999) == max(timer, 1)
