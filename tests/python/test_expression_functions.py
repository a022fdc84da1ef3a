"""Functions in conditions: the same rows as in DuckDB, over random strings, numbers and times."""

import math
from datetime import datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign
import tidegate
from tidegate import Expr, case, left, right

# Letters such as ß are missing, because DuckDB does not convert them to upper case.
TEXTS = st.none() | st.text("aAbBzZéÉ %_.\\\n1", max_size=6)
TIMES = st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - naive

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "s": TEXTS,
            "t": TEXTS,
            "i": st.none() | st.integers(-9, 9),
            "f": st.none() | st.floats(-1e9, 1e9) | st.sampled_from([0.5, -0.5, 2.5, 1e300]),
            "d": st.none() | st.decimals(-99, 99, places=2),
            "time": TIMES,
        }
    ),
    min_size=1,
    max_size=20,
)

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "s": pa.string(),
        "t": pa.string(),
        "i": pa.int64(),
        "f": pa.float64(),
        "d": pa.decimal128(9, 2),
        "time": pa.timestamp("us"),
    }
)

DUCKDB = duckdb.connect()

CONDITIONS = {
    "lower(s) = lower(t)": left.s.lower() == left.t.lower(),
    "upper(s) >= upper(t)": left.s.upper() >= left.t.upper(),
    "length(s) > length(t)": left.s.length() > left.t.length(),
    "substr(s, 2) = substr(t, 2)": left.s.substr(2) == left.t.substr(2),
    "substr(s, 2, 2) = t": left.s.substr(2, 2) == left.t,
    "substr(s, abs(i) + 1, abs(i)) != t": left.s.substr(abs(left.i) + 1, abs(left.i)) != left.t,
    "starts_with(s, t)": left.s.starts_with(left.t),
    "ends_with(s, t)": left.s.ends_with(left.t),
    "contains(s, t)": left.s.contains(left.t),
    "starts_with(s, 'a')": left.s.starts_with("a"),
    "s LIKE '%a_%'": left.s.like("%a_%"),
    r"s LIKE '%\%'": left.s.like("%\\%"),
    "s ILIKE 'A%z'": left.s.ilike("A%z"),
    "NOT s ILIKE '%b%'": ~left.s.ilike("%b%"),
    "coalesce(s, t, 'none') = 'none'": left.s.coalesce(left.t, "none") == "none",
    "coalesce(i, f, 3) < 3": left.i.coalesce(left.f, 3) < 3,
    "coalesce(d, i) < 2.5": left.d.coalesce(left.i) < 2.5,
    "floor(f) < ceil(f)": math.floor(left.f) < math.ceil(left.f),
    "round(f) = f": round(left.f) == left.f,
    "round(d) > d": round(left.d) > left.d,
    "round(d, 1) = d": round(left.d, 1) == left.d,
    "floor(d) + 1 = ceil(d)": math.floor(left.d) + 1 == math.ceil(left.d),
    "round(i) = i": round(left.i) == left.i,
    "CASE WHEN i > 0 THEN s WHEN i < 0 THEN t END IS NULL": case(
        (left.i > 0, left.s), (left.i < 0, left.t)
    ).is_null(),
    "CASE WHEN s = t THEN i ELSE f END > 1": case((left.s == left.t, left.i), otherwise=left.f) > 1,
    "CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE s END = t": (
        case((left.i == 1, "one"), (left.i == 2, "two"), otherwise=left.s) == left.t
    ),
    "CAST(i AS VARCHAR) = s": left.i.cast("varchar") == left.s,
    "CAST(i AS DOUBLE) < f": left.i.cast("double") < left.f,
    "CAST(d AS DECIMAL(9, 1)) > d": left.d.cast("decimal(9, 1)") > left.d,
    "CAST(time AS DATE) = time": left.time.cast("date") == left.time,
    "CAST(CAST(time AS VARCHAR) AS TIMESTAMP) = time": (
        left.time.cast("varchar").cast("timestamp") == left.time
    ),
    **{
        f"EXTRACT({part} FROM time) % 3 = 1": left.time.extract(part) % 3 == 1
        for part in (
            "year",
            "quarter",
            "month",
            "week",
            "day",
            "dow",
            "doy",
            "hour",
            "minute",
            "second",
        )
    },
}


def found(table: pa.Table, where: str | Expr) -> list[int]:
    """Return the numbers of the rows for which a condition is true."""
    one = pa.table({"ts": pa.array([0]), "unused": pa.array([0])})
    table = table.append_column("ts", pa.array([0] * len(table), pa.int64()))
    pairs = tidegate.interval_join(
        table, one, on="ts", lower=0, upper=0, where=where, columns=["id"]
    )
    return pairs["id"].to_pylist()


@settings(max_examples=campaign.tries(16))
@given(rows=ROWS)
def test_rows_are_those_of_duckdb(rows: list[dict[str, object]]) -> None:
    for row in rows:
        # Times have no fractional seconds, because DuckDB omits the fraction if it is zero.
        row["time"] = row["time"] and row["time"].replace(microsecond=0)
    numbered = [{"id": number, **row} for number, row in enumerate(rows)]
    table = pa.Table.from_pylist(numbered, SCHEMA)
    columns = ", ".join(f"coalesce({text}, FALSE)" for text in CONDITIONS)
    answers = DUCKDB.from_arrow(table).query("rows", f"SELECT {columns} FROM rows ORDER BY id")  # noqa: S608 - our names
    for (text, condition), answer in zip(
        CONDITIONS.items(), zip(*answers.fetchall(), strict=True), strict=True
    ):
        expected = [number for number, holds in enumerate(answer) if holds]
        assert found(table, condition) == expected, text
        # Python operators that build the same condition.
        assert found(table, str(condition)) == expected, text


def test_a_function_of_both_sides_joins() -> None:
    names = pa.table({"ts": [1, 2, 3], "name": ["Ann", "BEN", None]})
    codes = pa.table({"ts": [1, 2, 3], "code": ["ann", "ben", "ann"]})
    pairs = tidegate.interval_join(
        names,
        codes,
        on="ts",
        lower=-5,
        upper=5,
        where=left.name.lower() == right.code,
        columns=["name", "code"],
    )
    assert pairs.to_pylist() == [
        {"name": "Ann", "code": "ann"},
        {"name": "Ann", "code": "ann"},
        {"name": "BEN", "code": "ben"},
    ]


def test_a_value_that_cannot_be_cast_is_named() -> None:
    table = pa.table({"id": [0, 1], "s": ["12", "twelve"]})
    with pytest.raises(tidegate.TidegateError, match=r"CAST\(left.s AS BIGINT\).*twelve"):
        found(table, left.s.cast("bigint") > 1)
    guarded = left.s.matches("^[0-9]+$") & (left.s.cast("bigint") > 1)
    assert found(table, guarded) == [0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: left.s.cast("int; drop"), "cast() expects a name, such as 'bigint'"),
        (lambda: left.s.extract(3), "extract() expects a name, such as 'hour'"),
        (case, "at least one pair"),
        (lambda: case(left.a), "case() expects pairs of a condition and a value"),
        (lambda: case((1, 2)), "case() expects a condition before each value"),
    ],
)
def test_a_mistake_is_told_at_once(make, message: str) -> None:
    with pytest.raises(TypeError) as error:
        make()
    assert message in str(error.value)
