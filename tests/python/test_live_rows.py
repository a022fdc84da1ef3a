"""Live rows as they come: ISO 8601 strings for times, and JSON text."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import campaign
import tidegate as tg

ZONED = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.int64())])
NAIVE = pa.schema([("ts", pa.timestamp("ms")), ("x", pa.int64())])


def pushed(schema: pa.Schema, *pushes: Any) -> list[dict[str, Any]]:
    """Return the rows that a merge gives after some pushes."""
    merge = tg.Merge(schema)
    for rows in pushes:
        if isinstance(rows, bytes | str):
            merge.sources[0].push_json(rows)
        else:
            merge.sources[0].push(rows)
    merge.sources[0].close()
    return [row for batch in merge for row in batch.to_pylist()]


def test_a_time_may_be_a_string() -> None:
    rows = [
        {"ts": "2026-03-02T09:00:00Z", "x": 1},
        {"ts": datetime(2026, 3, 2, 9, 30, tzinfo=UTC), "x": 2},
        {"ts": "2026-03-02 10:45:00.25+01:00", "x": 3},
    ]
    found = pushed(ZONED, rows)
    assert [row["ts"] for row in found] == [
        datetime(2026, 3, 2, 9, tzinfo=UTC),
        datetime(2026, 3, 2, 9, 30, tzinfo=UTC),
        datetime(2026, 3, 2, 9, 45, 0, 250000, UTC),
    ]
    assert pushed(NAIVE, [("2026-03-02T09:00:00.5", 1)])[0]["ts"].isoformat() == (
        "2026-03-02T09:00:00.500000"
    )
    dates = pa.schema([("ts", pa.date32()), ("x", pa.int64())])
    assert pushed(dates, [("2026-03-02", 1)])[0]["ts"].isoformat() == "2026-03-02"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("seed", range(campaign.tries(5)))
def test_strings_are_the_times_that_python_reads(unit: str, seed: int) -> None:
    chance = campaign.rng(f"iso {unit} {seed}")
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 6}[unit]
    times = []
    for _ in range(50):
        zone = timezone(timedelta(minutes=chance.randrange(-720, 841)))
        micros = chance.randrange(10**digits) * 10 ** (6 - digits) if digits else 0
        seconds = chance.randrange(4_000_000_000)
        times.append(datetime.fromtimestamp(seconds, zone).replace(microsecond=micros))
    times.sort()
    schema = pa.schema([("ts", pa.timestamp(unit, "UTC")), ("x", pa.int64())])
    rows = [{"ts": at.isoformat(chance.choice(["T", " "])), "x": 0} for at in times]
    expected = pa.array(times, pa.timestamp(unit, "UTC"))
    merge = tg.Merge(schema)
    merge.sources[0].push(rows)
    merge.sources[0].close()
    assert pa.concat_arrays([batch["ts"] for batch in merge]).equals(expected)


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        (ZONED, "2026-03-02T09:00:00", "it has no time zone, but the column has one; add its UTC"),
        (ZONED, "2026-03-02", "it has no time zone, but the column has one"),
        (NAIVE, "2026-03-02T09:00:00Z", "it has a time zone, but the column has none; omit"),
        (NAIVE, "2026-03-02T09:00:00.1234", "with no more digits than the type has"),
        (NAIVE, "02.03.2026", "expected ISO 8601, such as 2026-03-02"),
        (ZONED, "soon", "expected ISO 8601, such as 2026-03-02"),
        (NAIVE, "2026-02-30", "expected ISO 8601"),
    ],
)
def test_a_string_that_does_not_fit_is_named(schema: pa.Schema, text: str, why: str) -> None:
    merge = tg.Merge(schema)
    good = "2026-03-02T09:00:00" + ("Z" if schema is ZONED else "")
    with pytest.raises(tg.TidegateError) as raised:
        merge.sources[0].push([{"ts": good, "x": 1}, {"ts": text, "x": 2}])
    assert "source 0: column `ts`, row 1 of the list: " in str(raised.value)
    assert repr(text) in str(raised.value)
    assert why in str(raised.value)
    # All rows of the push are refused.
    assert merge.stats()["rows_in"] == 0


# JSON

ROWS = [
    {"ts": "2026-03-02T09:00:00Z", "x": 1},
    {"ts": "2026-03-02T09:00:01Z", "x": 2**62 + 1},
    {"ts": "2026-03-02T09:00:02Z", "x": None},
]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, ROWS)),
        "\r\n".join(map(json.dumps, ROWS)) + "\r\n\r\n",
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
    ],
)
@pytest.mark.parametrize("kind", [str, bytes, bytearray, memoryview])
def test_json_gives_the_rows_of_its_objects(text: str, kind: Any) -> None:
    merge = tg.Merge(ZONED)
    merge.sources[0].push_json(text if kind is str else kind(text.encode()))
    merge.sources[0].close()
    found = [row for batch in merge for row in batch.to_pylist()]
    assert found == pushed(ZONED, ROWS)
    assert [row["x"] for row in found] == [1, 2**62 + 1, None]


def test_other_columns_are_ignored_only_if_it_is_said() -> None:
    text = '{"ts": "2026-03-02T09:00:00Z", "x": 1, "broker": "b"}'
    merge = tg.Merge(ZONED)
    with pytest.raises(tg.SchemaError, match=r"has a value for `broker`.*extra=.ignore"):
        merge.sources[0].push_json(text)
    merge.sources[0].push_json(text, extra="ignore")
    assert merge.stats()["rows_in"] == 1


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ('{"ts": 1}\n{"ts": ', tg.TidegateError, "text, line 2: is not JSON"),
        ("[1, 2", tg.TidegateError, "text: is not JSON"),
        ("[1]", TypeError, "text, row 0: expected an object with a value for each column, got 1"),
        ('{"ts": 1}\n"x"', TypeError, "text, line 2: expected an object"),
        (b"\xff", tg.TidegateError, "text: expected JSON in UTF-8"),
        ([{"ts": 1}], TypeError, "got list; write push(rows)"),
        ('{"x": 1}', tg.SchemaError, "has no value for column `ts`; give None for a null"),
        ('{"ts": "2026-03-02T09:00:00Z", "x": 1.5}', tg.TidegateError, "column `x`, row 0"),
    ],
)
def test_json_that_does_not_fit_is_named(data: Any, kind: type[Exception], said: str) -> None:
    merge = tg.Merge(ZONED)
    with pytest.raises(kind) as raised:
        merge.sources[0].push_json(data)
    assert said in str(raised.value)
    assert merge.stats()["rows_in"] == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("of", ["s", "ms", "us", "ns"])
def test_numbers_count_a_unit_since_1970(unit: Any, of: str) -> None:
    schema = pa.schema([("ts", pa.timestamp(of, "UTC")), ("x", pa.int64())])
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}
    chance = campaign.rng(f"epochs {unit} {of}")
    # These times are whole numbers of both units.
    step = 10 ** max(0, digits[unit] - digits[of])
    given = sorted(chance.randrange(-(10**6), 10**6) * step for _ in range(40))
    merge = tg.Merge(schema)
    merge.sources[0].push({"ts": given, "x": list(range(40))}, unit=unit)
    merge.sources[0].close()
    found = [ts for batch in merge for ts in batch["ts"].cast(pa.int64()).to_pylist()]
    shift = digits[of] - digits[unit]
    assert found == [ts * 10**shift if shift >= 0 else ts // 10**-shift for ts in given]


def test_floats_are_the_decimals_that_they_show() -> None:
    schema = pa.schema([("ts", pa.timestamp("ms")), ("x", pa.int64())])
    for rows in ([(1772442000.123, 1)], [{"ts": 1772442000.123, "x": 1}]):
        merge = tg.Merge(schema)
        merge.sources[0].push(rows, unit="s")
        merge.sources[0].push_json('{"ts": 1772442000.124, "x": 2}', unit="s")
        merge.sources[0].close()
        times = [time for batch in merge for time in batch["ts"].cast(pa.int64()).to_pylist()]
        assert times == [1772442000123, 1772442000124]


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ({"ts": [1], "x": [1]}, {}, tg.TidegateError, r'needs a unit; write push\(rows, unit="s"'),
        (
            {"ts": [1772445660123], "x": [1]},
            {},
            tg.TidegateError,
            'unit="ms"\\) if it counts milli',
        ),
        (b'{"ts": 1}', {}, TypeError, r"got text; write push_json\(data\) for JSON"),
        ([(0.0001, 1)], {"unit": "s"}, tg.TidegateError, "is not a whole number of ms since 1970"),
        ([(float("inf"), 1)], {"unit": "s"}, tg.TidegateError, "row 0 of the list: inf is not"),
        ([(1, 1)], {"unit": "minutes"}, tg.TidegateError, "unit must be one of s, ms, us, ns"),
        (NAIVE.empty_table(), {"unit": "s"}, TypeError, "unit: the types of Arrow data have"),
        ({"ts": 5, "x": 1}, {}, TypeError, r"value for `ts` is 5; write push\(\[row\]\)"),
        ((5, 1), {}, TypeError, r"got a tuple; write push\(\[row\]\) for one row"),
        ({"ts": [None]}, {}, tg.SchemaError, "the dict has no list for column `x`"),
        ({"ts": [], "x": [], "y": []}, {}, tg.SchemaError, "a list for `y`, which is not a column"),
        ({"ts": [1, 2], "x": [1]}, {}, tg.SchemaError, "`ts` has 2 values and `x` has 1"),
    ],
)
def test_lists_and_numbers_that_do_not_fit(
    data: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    merge = tg.Merge(NAIVE)
    with pytest.raises(error, match=message):
        merge.sources[0].push(data, **options)
