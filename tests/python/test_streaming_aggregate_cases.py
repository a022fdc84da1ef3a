"""Streaming windows: refused arguments, memory, and messages."""

import datetime as dt
import decimal
import math
import os
import random
import re

import numpy as np
import pyarrow as pa
import pytest

from tidegate import (
    Aggregate,
    ClosedError,
    MemoryLimitError,
    SchemaError,
    StateError,
    TidegateError,
    agg,
    aggregate,
    explain,
    row,
)

TABLE = pa.table({"ts": [1, 4, 9], "k": ["a", "b", "a"], "v": [1, 2, 3], "l": [[1], [], None]})
QUERY = {"on": "ts", "size": 4, "advance": 2, "by": "k", "aggs": {"n": agg.count()}}


def new(**arguments: object) -> Aggregate:
    return Aggregate(TABLE.schema, **(QUERY | arguments))


def taken(windows: Aggregate, *names: str) -> list[tuple[object, ...]]:
    """Return columns of all final results; by default the window, the key and the count."""
    names = names or ("window_start", "k", "n")
    return [
        tuple(found[name] for name in names)
        for batch in iter(windows.poll, None)
        for found in batch.to_pylist()
    ]


WHOLE = [
    tuple(found[name] for name in ("window_start", "k", "n"))
    for found in aggregate(TABLE, **QUERY).to_pylist()
]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"size": 0}, TidegateError, "size must be greater than 0, got 0"),
        ({"advance": -1}, TidegateError, "advance must be greater than 0, got -1"),
        ({"size": "1s"}, SchemaError, "size is a duration, but the time columns are int"),
        (
            {"size": None},
            TypeError,
            "size: expected a duration, got None; give size, session or windows",
        ),
        ({"session": 5}, TidegateError, "size cannot be combined with session"),
        ({"size": None, "advance": None, "session": 0}, TidegateError, "session must be greater"),
        ({"aggs": {"x": agg.min("l")}}, SchemaError, "aggs: `x`: min of column `l` of type list"),
        ({"on": "at"}, SchemaError, "there is no column `at`, which `on` names"),
        ({"by": "z"}, SchemaError, "there is no column `z`, which `by` names"),
        ({"aggs": {"s": agg.sum("k")}}, SchemaError, "aggs: `s`: sum of column `k` of type string"),
        ({"aggs": {"k": agg.count()}}, SchemaError, "the result would have two columns `k`"),
        ({"aggs": [agg.count()]}, TypeError, "aggs: expected a mapping from names"),
        ({"where": "z > 1"}, SchemaError, "z"),
        ({"sources": 0}, TidegateError, "sources must be from 1 to 65536, got 0"),
        ({"sources": 1.5}, TypeError, "sources"),
        ({"lateness": -1}, TidegateError, "lateness must not be negative, got -1"),
        ({"algorithm": "windows"}, TidegateError, "algorithm"),
        ({"threads": 0}, TidegateError, "threads must be from 1 to 512, got 0"),
        ({"memory_limit": -1}, TidegateError, "memory_limit must be at least 0, got -1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        new(**arguments)


@pytest.mark.parametrize("schema", [5, None, [1]])
def test_wrong_schemas_are_refused(schema):
    with pytest.raises(TypeError, match="schema: expected a table"):
        Aggregate(schema, **QUERY)


def test_it_says_what_it_does():
    arguments = {"sources": 3, "threads": 2, "memory_limit": 99, "where": row.v > 1}
    text = new(**arguments).explain()
    assert text == explain(Aggregate, TABLE, **(QUERY | arguments))
    lines = text.splitlines()
    assert lines[:6] == [
        "aggregate",
        "  windows    [k * 2 + 0, k * 2 + 0 + 4) integer, on ts",
        "  key        k; null is a group",
        "  where      row.v > 1",
        "  aggregates n = count()",
        "  sources    3",
    ]
    assert lines[7] == "  threads    2"
    assert lines[8].endswith("; at most 99 bytes")
    with pytest.raises(SchemaError, match="there is no column `at`"):
        explain(Aggregate, TABLE, **(QUERY | {"on": "at"}))


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        ("auto", "slices, which is the fastest: each row goes to one slice"),
        ("slices", "slices: each row goes to one slice"),
        ("mq", "MQ: a queue with a lock for each source; one thread merges"),
        ("mq-lf", "MQ-LF: a lock-free queue for each source; one thread merges"),
        ("tumlsc", "TuMLSC: a gate merges rows; one thread updates"),
        (
            "tumlmc",
            "TuMLMC: a gate merges rows; each thread updates the slices of some keys in a hive",
        ),
        ("wiml", "WiML: each source updates slices in a hive"),
    ],
)
def test_it_says_which_algorithm_it_takes_and_what_that_does(algorithm, text):
    line = f"  algorithm  {text}"
    assert line in new(algorithm=algorithm).explain()
    assert line in explain(aggregate, [TABLE, TABLE], **QUERY, algorithm=algorithm)


def test_a_source_that_says_nothing_holds_all_back():
    windows = new(sources=2)
    first, silent = windows.sources
    first.push(TABLE)
    first.close()
    assert taken(windows) == []
    silent.advance(6)
    assert taken(windows) == [found for found in WHOLE if found[0] + 4 <= 6]
    silent.close()
    assert taken(windows) == [found for found in WHOLE if found[0] + 4 > 6]
    assert windows.stats()["watermark"] is None


def test_promises_alone_complete_windows():
    windows = new(lateness=5)
    source = windows.sources[0]
    source.push(TABLE)
    assert taken(windows) == [found for found in WHOLE if found[0] + 4 <= 4]
    source.advance(8)
    assert taken(windows) == [(0, "a", 1), (2, "b", 1), (4, "b", 1)][1:]
    source.advance(2**63 - 1)
    assert taken(windows) == [(6, "a", 1), (8, "a", 1)]
    source.push(TABLE)
    late = windows.late()
    assert late["late_position"].to_pylist() == [3, 4, 5]
    assert late.select(TABLE.column_names).equals(TABLE)
    assert windows.stats()["rows_late"] == 3


def test_times_are_promised_as_times():
    schema = pa.schema({"ts": pa.timestamp("ms", "Europe/Paris")})
    windows = Aggregate(schema, on="ts", size="1h", aggs={"n": agg.count()})
    at = dt.datetime(2024, 1, 1, 12, 30, tzinfo=dt.UTC)
    windows.sources[0].push(pa.table({"ts": [at]}, schema=schema))
    windows.sources[0].advance(at + dt.timedelta(minutes=29))
    assert windows.poll() is None
    windows.sources[0].advance(at + dt.timedelta(minutes=30))
    assert windows.poll().to_pylist()[0]["window_start"] == at.replace(minute=0)


def test_keys_that_are_equal_are_one_whatever_came_first():
    schema = pa.schema(
        {"ts": pa.int64(), "k": pa.float32(), "d": pa.dictionary(pa.int8(), pa.string())}
    )
    one = pa.table({"ts": [0, 0, 0, 0], "k": [-0.0, 0.0, -math.nan, None], "d": ["x"] * 4}, schema)
    windows = Aggregate(schema, on="ts", size=1, by=["k", "d"], aggs={"n": agg.count()})
    windows.sources[0].push(one)
    windows.sources[0].close()
    batch = windows.poll()
    assert batch.schema.field("d").type == schema.field("d").type
    assert repr(batch.to_pydict()["k"]) == "[0.0, nan, None]"
    assert batch.to_pydict()["n"] == [2, 1, 1]
    whole = aggregate(one, on="ts", size=1, by=["k", "d"], aggs={"n": agg.count()})
    assert repr(whole.to_pydict()) == repr(pa.Table.from_batches([batch]).to_pydict())


KINDS = {
    "first": (agg.first, pa.list_(pa.struct({"x": pa.int8()})), [[{"x": 1}], None, []]),
    "last": (agg.last, pa.string_view(), ["a", None, "b"]),
    "least": (agg.min, pa.float16(), [np.float16(1.5), None, np.float16(-2)]),
    "most": (agg.max, pa.timestamp("s"), [dt.datetime(2024, 1, 1), None, dt.datetime(2023, 1, 1)]),  # noqa: DTZ001 - naive
    "short": (agg.sum, pa.int8(), [100, 100, None]),
    "unsigned": (agg.sum, pa.uint64(), [2**63, 5, None]),
    "decimals": (
        agg.sum,
        pa.decimal128(20, 2),
        [decimal.Decimal("1.25"), None, decimal.Decimal(7)],
    ),
    "average": (agg.mean, pa.decimal64(10, 1), [decimal.Decimal("0.5"), decimal.Decimal(2), None]),
    "small": (agg.mean, pa.uint8(), [255, 255, 254]),
    "flags": (agg.max, pa.bool_(), [True, False, None]),
    "text": (agg.min, pa.string_view(), ["b", None, "a"]),
    "bytes": (agg.max, pa.binary(), [b"a", b"", None]),
    "categories": (agg.max, pa.dictionary(pa.int8(), pa.string()), ["b", "c", None]),
    "money": (
        agg.min,
        pa.decimal256(50, 3),
        [decimal.Decimal("1.250"), None, decimal.Decimal("-7.125")],
    ),
    "days": (agg.min, pa.date32(), [dt.date(2024, 5, 1), None, dt.date(1969, 1, 1)]),
    "times": (agg.max, pa.time64("ns"), [dt.time(1, 2), None, dt.time(3)]),
    "spans": (agg.min, pa.duration("ms"), [dt.timedelta(3), None, dt.timedelta(-1)]),
    "early": (agg.first, pa.binary_view(), [b"x", None, b""]),
    "zoned": (
        agg.last,
        pa.timestamp("us", "Europe/Rome"),
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None, dt.datetime(2023, 1, 1, tzinfo=dt.UTC)],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_type(kind):
    function, type_, values = KINDS[kind]
    schema = pa.schema({"ts": pa.int64(), "v": type_})
    tables = [pa.table({"ts": [at, at + 1], "v": values[at : at + 2]}, schema) for at in (0, 1)]
    arguments = {"on": "ts", "size": 3, "advance": 1, "aggs": {"v": function("v")}}
    windows = Aggregate(schema, **arguments, sources=2)
    for source, table in zip(windows.sources, tables, strict=True):
        source.push(table)
        windows.poll()
        source.close()
    windows = Aggregate(schema, **arguments, sources=2)
    found = []
    for source, table in zip(windows.sources, tables, strict=True):
        for piece in table.to_batches(max_chunksize=1):
            source.push(piece)
            found.extend(iter(windows.poll, None))
    for source in windows.sources:
        source.close()
    found.extend(windows)
    whole = aggregate(tables, **arguments)
    assert pa.Table.from_batches(found).equals(whole)


def test_a_sum_that_does_not_fit_is_told_and_stays():
    windows = new(aggs={"s": agg.sum("v")})
    big = pa.table({"ts": [0, 1], "k": ["a", "a"], "v": [2**62, 2**62], "l": [None, None]})
    windows.sources[0].push(big.cast(TABLE.schema))
    windows.sources[0].close()
    for _ in range(2):
        with pytest.raises(
            TidegateError, match=r"aggs: `s`: in the window that starts at -2 .* does not fit int64"
        ):
            windows.poll()


def test_a_window_beyond_64_bits_is_told():
    windows = new(by=None)
    late = TABLE.slice(0, 1).set_column(0, "ts", pa.array([2**63 - 1]))
    with pytest.raises(
        TidegateError,
        match=r"source 0: row 0: the time 9223372036854775807 .* outside the 64-bit range",
    ):
        windows.sources[0].push(late)


def test_a_condition_that_cannot_be_evaluated_is_told():
    windows = new(where="v / (v - 2) > 0")
    windows.sources[0].push(TABLE)
    with pytest.raises(
        TidegateError, match=re.compile("division by zero|divide by zero", re.IGNORECASE)
    ):
        windows.poll()


def test_a_row_of_another_schema_is_refused():
    windows = new()
    with pytest.raises(
        SchemaError, match=r"source 0: the rows have no column `k`, which is string"
    ):
        windows.sources[0].push(TABLE.select(["ts"]))
    assert windows.stats()["rows_in"] == 0


def test_a_limit_on_memory_is_kept_and_one_can_go_on():
    limit = 2_000_000
    windows = new(memory_limit=limit, sources=2, aggs={"n": agg.count(), "v": agg.first("v")})
    first, second = windows.sources
    rng = random.Random(3)  # noqa: S311 - not for secrets
    found, messages = 0, []
    for turn in range(300):
        ts = list(range(turn * 500, turn * 500 + 500))
        keys = [str(rng.randrange(200)) for _ in ts]
        rows = pa.table({"ts": ts, "k": keys, "v": ts, "l": [None] * 500}).cast(TABLE.schema)
        try:
            first.push(rows)
        except MemoryLimitError as error:
            messages.append(str(error))
            second.advance(turn * 500)
            found += sum(n for *_, n in taken(windows))
            first.push(rows)
        assert windows.stats()["memory"] <= limit
    first.close()
    second.close()
    found += sum(n for *_, n in taken(windows))
    assert len(messages) > 2
    assert all(re.match(r"source 0: 500 rows need \d+ bytes, but", text) for text in messages)
    # Every row is in two windows.
    assert found == 2 * 300 * 500
    assert windows.stats()["memory"] < limit / 4


@pytest.mark.parametrize(
    "windows", [{"size": 10}, {"size": 10, "algorithm": "wiml"}, {"session": 10}]
)
def test_there_is_room_again_once_all_windows_are_complete(windows):
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])

    def rows(ts: int, first: int) -> pa.Table:
        return pa.table({"ts": [ts] * 500, "k": range(first, first + 500)}, schema)

    operator = Aggregate(
        schema, on="ts", by="k", aggs={"n": agg.count()}, memory_limit=1_000_000, **windows
    )
    (source,) = operator.sources
    pushed = found = 0

    def push_on(ts: int) -> None:
        nonlocal pushed, found
        for _ in range(1_000):
            source.push(rows(ts, pushed))
            pushed += 500
            found += sum(batch.num_rows for batch in iter(operator.poll, None))

    for ts in (0, 1_000):
        with pytest.raises(MemoryLimitError):
            push_on(ts)
        source.advance(ts + 500)
        found += sum(batch.num_rows for batch in iter(operator.poll, None))
        assert found == pushed
        assert operator.stats()["memory"] < 100_000
    assert pushed > 4_000


def test_a_state_that_outgrows_the_limit_is_told():
    windows = new(memory_limit=300_000, size=10**9, advance=None)
    refused = None
    for turn in range(100):
        keys = [f"{turn} {at}" for at in range(100)]
        rows = pa.table({"ts": [turn] * 100, "k": keys, "v": [1] * 100, "l": [None] * 100})
        try:
            windows.sources[0].push(rows.cast(TABLE.schema))
            windows.poll()
        except MemoryLimitError as error:
            refused = str(error)
            break
    assert refused is not None
    assert "of memory_limit = 300000 are held" in refused
    assert windows.stats()["memory"] <= 300_000


def test_closed_is_closed():
    windows = new()
    source = windows.sources[0]
    source.push(TABLE)
    windows.close()
    windows.close()
    for call in (windows.poll, windows.snapshot, lambda: next(windows), lambda: source.push(TABLE)):
        with pytest.raises(ClosedError):
            call()
    assert windows.stats()["memory"] == 0


def test_a_child_process_is_refused():
    windows = new()
    source = windows.sources[0]
    child = os.fork()
    if child == 0:
        try:
            windows.poll()
        except ClosedError:
            try:
                source.push(TABLE)
            except ClosedError:
                os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    source.push(TABLE)
    source.close()
    assert taken(windows) == WHOLE


def used() -> Aggregate:
    windows = new(aggs={"n": agg.count(), "v": agg.first("v")}, lateness=3)
    windows.sources[0].push(TABLE)
    windows.sources[0].push(TABLE[:1])
    return windows


def test_damage_is_found_wherever_it_is():
    snapshot = used().snapshot()
    rng = random.Random(1)  # noqa: S311 - not for secrets
    arguments = {"aggs": {"n": agg.count(), "v": agg.first("v")}, "lateness": 3}
    # A refused snapshot leaves the operator unchanged.
    windows = new(**arguments)
    for place in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(StateError):
            windows.restore(bytes(damaged))
    for length in range(len(snapshot)):
        with pytest.raises(StateError):
            windows.restore(snapshot[:length])
    windows.restore(snapshot)
    assert windows.snapshot() == snapshot


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"aggs": {"n": agg.count()}, "lateness": 3},
        {"aggs": {"n": agg.count(), "v": agg.last("v")}, "lateness": 3},
        {"aggs": {"n": agg.count(), "v": agg.first("v")}, "lateness": 3, "size": 6},
        {"aggs": {"n": agg.count(), "v": agg.first("v")}, "lateness": 3, "by": None},
        {"aggs": {"n": agg.count(), "v": agg.first("v")}, "lateness": 3, "where": "v > 0"},
        {"aggs": {"n": agg.count(), "v": agg.first("v")}, "lateness": 3, "sources": 2},
    ],
)
def test_a_snapshot_of_another_query_is_refused(arguments):
    with pytest.raises(StateError, match="another query"):
        new(**arguments).restore(used().snapshot())


def test_a_snapshot_goes_into_an_unused_aggregation():
    windows = used()
    with pytest.raises(StateError, match="an unused"):
        windows.restore(windows.snapshot())
    with pytest.raises(TypeError):
        windows.restore("text")
