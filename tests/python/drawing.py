"""Draws random joins for property tests: tables, conditions, bounds and their spellings.

The drawn data is small, so ties, empty sides and bounds that just match are frequent.
"""

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa

import oracle
from tidegate import Expr, left, right

KINDS = ["inner", "left", "right", "full", "semi", "anti"]
CLOSED = ["both", "left", "right", "neither"]

# For each kind of key: values, some of which are equal, and types that can hold all of them. The
# types of the two sides are drawn independently.
KEYS: list[tuple[list[object], list[pa.DataType]]] = [
    ([0, 1, 2, 100, None], [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]),
    ([-(2**63), 2**63 - 1, 0, 1, None], [pa.int64()]),
    ([0.0, -0.0, float("nan"), float("inf"), 1.5, None], [pa.float32(), pa.float64()]),
    (
        ["", "a", "ab", "é", None],
        [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ),
    ([b"", b"a", b"\xff", b"a\x00", None], [pa.binary(), pa.large_binary(), pa.binary_view()]),
    ([True, False, None], [pa.bool_()]),
    (
        [decimal.Decimal(0), decimal.Decimal("1.5"), decimal.Decimal("-1.5"), None],
        [pa.decimal128(5, 1), pa.decimal128(20, 5), pa.decimal256(40, 2)],
    ),
    ([dt.date(2024, 2, 29), dt.date(1969, 12, 31), None], [pa.date32(), pa.date64()]),
    (
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC), None],
        [pa.timestamp("s", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "UTC")],
    ),
]

# Time types that may be combined on the two sides.
TIMES: list[list[pa.DataType]] = [
    [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()],
    [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.date32()],
    [pa.timestamp("ms", "Europe/Paris"), pa.timestamp("us", "UTC"), pa.timestamp("s", "UTC")],
]


@dataclass(frozen=True)
class Condition:
    """A `where` in two forms: as tidegate accepts it, and as the nested loop evaluates it."""

    text: str | Expr | None
    holds: Callable[[oracle.Row, oracle.Row], bool | None]


def both(left_row: oracle.Row, right_row: oracle.Row) -> bool:
    return left_row["x"] is not None and right_row["x"] is not None


CONDITIONS = [
    Condition(None, lambda _a, _b: True),
    Condition(left.x < right.x, lambda a, b: both(a, b) and a["x"] < b["x"]),
    Condition(
        "abs(left.x - right.x) <= 1 OR right.x IS NULL",
        lambda a, b: b["x"] is None or (both(a, b) and abs(a["x"] - b["x"]) <= 1),
    ),
    Condition(
        ~((left.x == 1) | (right.x + left.x).between(2, 3)),
        lambda a, b: both(a, b) and a["x"] != 1 and not 2 <= a["x"] + b["x"] <= 3,
    ),
    Condition("left.x > 1000", lambda _a, _b: False),
]


def chunked(draw: st.DrawFn, values: list[object], type_: pa.DataType) -> pa.ChunkedArray:
    """Divide the values into up to three chunks, some of them empty or slices of longer arrays."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=2)))
    whole = pa.array(values, type_)
    ends = zip([0, *cuts], [*cuts, len(values)], strict=True)
    return pa.chunked_array([whole[start:end] for start, end in ends], type_)


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[object], list[pa.DataType]]:
    """Draw a few values, so that equal ones are frequent, and the types that they may have."""
    values, types = draw(st.sampled_from(KEYS))
    return draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)), types


@st.composite
def sides(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, list[str]]:
    """Draw two tables with times `ts`, keys, a number `x` for conditions, and the row number."""
    time_types = draw(st.sampled_from(TIMES))
    kinds = draw(st.lists(keys(), max_size=2))
    key_names = [f"k{at}" for at in range(len(kinds))]
    tables = []
    for row_name in ("l", "r"):
        count = draw(st.integers(0, 12))

        def column(values: st.SearchStrategy, type_: pa.DataType, count: int = count):
            return chunked(draw, draw(st.lists(values, min_size=count, max_size=count)), type_)

        time_type = draw(st.sampled_from(time_types))
        columns = {"ts": column(moments(time_type), time_type)}
        for name, (values, types) in zip(key_names, kinds, strict=True):
            columns[name] = column(st.sampled_from(values), draw(st.sampled_from(types)))
        columns["x"] = column(st.sampled_from([None, 0, 1, 2, 3]), pa.int64())
        columns[row_name] = pa.chunked_array([range(count)], pa.int64())
        tables.append(pa.table(columns))
    return tables[0], tables[1], key_names


def moments(type_: pa.DataType) -> st.SearchStrategy[int]:
    """Draw times that are close together, in steps: whole ticks, or one step after a tick."""
    if pa.types.is_integer(type_):
        return st.integers(0, 6)
    if type_ == pa.date32():
        return st.integers(-2, 2)
    second = oracle.NANOSECONDS["s"] // oracle.step(type_)
    return st.builds(
        lambda ticks, rest: ticks * second + rest, st.integers(-3, 3), st.integers(0, 1)
    )


@st.composite
def joins(draw: st.DrawFn, left_type: pa.DataType, right_type: pa.DataType) -> oracle.Join:
    """Draw bounds: of both signs, missing, of length zero, or between two steps of the times."""
    if pa.types.is_integer(left_type):
        offsets, tick = st.just(0), 1
    else:
        offsets = st.sampled_from([0, 0, 0, 1, -1, oracle.NANOSECONDS["ms"]])
        tick = max(map(oracle.step, (left_type, right_type, pa.timestamp("s"))))
    ends = st.builds(lambda ticks, offset: ticks * tick + offset, st.integers(-3, 3), offsets)
    lower, upper = draw(st.one_of(st.none(), ends)), draw(st.one_of(st.none(), ends))
    if None not in (lower, upper):
        lower, upper = sorted([lower, upper])
    if draw(st.integers(0, 5)) == 0:
        upper = lower
    how, closed = draw(st.sampled_from(KINDS)), draw(st.sampled_from(CLOSED))
    return oracle.Join(on=("ts", "ts"), lower=lower, upper=upper, closed=closed, how=how)


def spelled(draw: st.DrawFn, bound: int | None, time_type: pa.DataType):
    """Write a bound in one of the forms that tidegate accepts."""
    if bound is None or pa.types.is_integer(time_type):
        return bound
    forms: list[object] = [f"{bound}ns", np.timedelta64(bound, "ns")]
    if bound % 1_000 == 0:
        forms.append(dt.timedelta(microseconds=bound // 1_000))
    if bound == 0:
        # Zero is the only integer that has the same meaning in any unit.
        forms.append(0)
    return draw(st.sampled_from(forms))


@st.composite
def calls(draw: st.DrawFn):
    """Draw two tables, a join for the oracle, and the arguments of the same join."""
    left_table, right_table, names = draw(sides())
    types = [table.schema.field("ts").type for table in (left_table, right_table)]
    condition = draw(st.sampled_from(CONDITIONS))
    by = [(name, name) for name in names]
    join = replace(draw(joins(*types)), by=by, where=condition.holds)
    arguments = {
        "on": "ts",
        "by": names,
        "lower": spelled(draw, join.lower, types[0]),
        "upper": spelled(draw, join.upper, types[0]),
        "where": condition.text,
        "closed": join.closed,
        "how": join.how,
        "threads": draw(st.integers(1, 8)),
    }
    return left_table, right_table, join, arguments
