"""Times that do not fit in 64-bit nanoseconds (9999-12-31, year 1, infinity), with ones that do.

Joins and conditions compare them exactly, as with Python integers.
"""

import datetime as dt
import operator
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import (
    TidegateError,
    agg,
    aggregate,
    asof_join,
    band_join,
    interval_join,
    overlap_join,
    window_join,
)

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
MOST = 2**63 - 1
YEAR = 365 * 86_400 * 10**9
OPEN_END = 253_402_214_400 * 10**9
YEAR_1 = -62_135_596_800 * 10**9
NOW = 1_767_225_600 * 10**9


def times(rng: random.Random, unit: str) -> list[int]:
    """Times in a unit, including some that do not fit in nanoseconds and some that barely fit."""
    step = NANOSECONDS[unit]
    edge = MOST // step
    near = [edge, edge + 1, edge + 2, -edge - 1, -edge - 2] if step > 1 else []
    far = [OPEN_END // step, OPEN_END // step + 1, YEAR_1 // step] if step > 1 else []
    pool = [0, 1, -1, NOW // step, NOW // step + 1, *near, *far]
    return [rng.choice(pool) for _ in range(rng.randint(0, 6))]


class Sides:
    """A table with a coarser time unit and a table with nanoseconds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        units = [self.rng.choice(["s", "ms", "us"]), "ns"]
        self.rng.shuffle(units)
        steps = [times(self.rng, unit) for unit in units]
        self.tables = [
            pa.table(
                {
                    "t": pa.array(side, pa.timestamp(unit)),
                    name: pa.array(range(len(side)), pa.int64()),
                    "zero": pa.array([0] * len(side), pa.int64()),
                }
            )
            for side, unit, name in zip(steps, units, "ab", strict=True)
        ]
        self.exact = [
            [step * NANOSECONDS[unit] for step in side]
            for side, unit in zip(steps, units, strict=True)
        ]

    def pairs(self, holds: Any) -> set[tuple[int, int]]:
        left, right = map(list, map(enumerate, self.exact))
        return {(a, b) for a, x in left for b, y in right if holds(x, y)}


def found(table: pa.Table) -> set[tuple[int, int]]:
    pairs = list(zip(table.column("a").to_pylist(), table.column("b").to_pylist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def length(nanoseconds: int | None) -> str | None:
    if nanoseconds is None:
        return None
    return f"-{-nanoseconds}ns" if nanoseconds < 0 else f"{nanoseconds}ns"


@contextmanager
def refused_or_done() -> Iterator[list[str]]:
    """The error messages, each of which must suggest a cast; empty if the call succeeded."""
    messages: list[str] = []
    try:
        yield messages
    except TidegateError as error:
        messages.append(str(error))
    text = "does not fit 64 bits in ns; cast the other time column to"
    assert all(text in message for message in messages)


OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
SEEDS = range(150)


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions_and_keys_compare_exactly(seed):
    sides = Sides(seed)
    together: dict[str, Any] = {"on": "zero", "lower": 0, "upper": 0, "columns": ["a", "b"]}
    for text, holds in OPERATORS.items():
        where = f"left.t {text} right.t"
        assert found(interval_join(*sides.tables, **together, where=where)) == sides.pairs(holds)
    for where in ("left.t BETWEEN right.t AND right.t", "left.t IN (right.t)"):
        joined = interval_join(*sides.tables, **together, where=where)
        assert found(joined) == sides.pairs(operator.eq)
    for by in ("t", ["zero", "t"]):
        assert found(interval_join(*sides.tables, **together, by=by)) == sides.pairs(operator.eq)


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_compare_exactly_or_say_what_to_write(seed):
    sides = Sides(seed)
    ends = [None, 0, 5, -5, 10**9, -(10**9), YEAR, -YEAR, 290 * YEAR, -290 * YEAR]
    low, high = sides.rng.choice(ends), sides.rng.choice(ends)
    if low is not None and high is not None and low > high:
        low, high = high, low
    bounds = {"lower": length(low), "upper": length(high)}
    with refused_or_done() as refused:
        joined = interval_join(*sides.tables, on="t", **bounds, columns=["a", "b"])
    if refused:
        # This occurs only if an interval bound connects such a time with a time that fits.
        assert max(abs(low or 0), abs(high or 0)) > 0
    else:
        assert found(joined) == sides.pairs(
            lambda x, y: (low is None or y - x >= low) and (high is None or y - x <= high)
        )
    with refused_or_done() as refused:
        joined = window_join(*sides.tables, on="t", window="1h", columns=["a", "b"])
    if not refused:
        assert found(joined) == sides.pairs(lambda x, y: abs(x - y) <= 3_600 * 10**9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", ["backward", "forward"])
def test_partners_are_the_nearest_exactly(seed, strategy):
    sides = Sides(seed)
    left, right = sides.exact
    joined = asof_join(*sides.tables, on="t", strategy=strategy, columns=["a", "b"])
    partners = [None if b is None else right[b] for b in joined.column("b").to_pylist()]
    if strategy == "backward":
        expected = [max((y for y in right if y <= x), default=None) for x in left]
    else:
        expected = [min((y for y in right if y >= x), default=None) for x in left]
    assert partners == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("closed", ["both", "left"])
def test_overlaps_compare_exactly(seed, closed):
    sides = Sides(seed)
    spans, exact = [], []
    for table, times_ in zip(sides.tables, sides.exact, strict=True):
        order = sorted(range(len(times_)), key=times_.__getitem__)
        starts = pa.array(order, pa.int64())
        ends = pa.array([*order[1:], *order[-1:]], pa.int64())
        name = table.column_names[1]
        spans.append(
            pa.table(
                {
                    "start": table.column("t").take(starts),
                    "end": table.column("t").take(ends),
                    name: pa.array(range(len(order)), pa.int64()),
                }
            )
        )
        exact.append(
            [
                (times_[start], times_[end])
                for start, end in zip(starts.to_pylist(), ends.to_pylist(), strict=True)
            ]
        )
    before = operator.le if closed == "both" else operator.lt
    columns = ("start", "end")
    joined = overlap_join(*spans, on=(columns, columns), closed=closed, columns=["a", "b"])
    left, right = map(list, map(enumerate, exact))
    assert found(joined) == {
        (a, b)
        for a, (start, end) in left
        for b, (other_start, other_end) in right
        if before(start, other_end)
        and before(other_start, end)
        and (closed == "both" or (start < end and other_start < other_end))
    }


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("s"), pa.date32()], ids=str)
def test_an_open_end_beside_nanoseconds(kind):
    events = pa.table({"t": pa.array([NOW, NOW + 1], pa.timestamp("ns"))})
    ends = pa.array(
        [dt.datetime.fromisoformat("9999-12-31"), dt.datetime.fromisoformat("2000-01-01")],
        pa.timestamp("us"),
    )
    starts = pa.array([dt.datetime.fromisoformat("1999-01-01")] * 2, pa.timestamp("us"))
    spans = pa.table({"s": starts, "e": ends.cast(kind), "v": [1, 2]})
    bounds: dict[str, Any] = {"on": ("t", "s"), "lower": None, "upper": "0s"}
    for where in (
        "left.t < right.e",
        "right.e > left.t",
        "left.t < TIMESTAMP '9999-12-31 00:00:00'",
    ):
        joined = interval_join(events, spans, **bounds, where=where)
        expected = [1, 1] if "right.e" in where else [1, 2, 1, 2]
        assert joined.column("v").to_pylist() == expected
    for where in ("left.t < DATE '9999-12-31'", "left.t > DATE '0001-01-01'"):
        assert interval_join(events, spans, **bounds, where=where).num_rows == 4
    joined = overlap_join(events, spans, on=(("t", "t"), ("s", "e")))
    assert joined.column("v").to_pylist() == [1, 1]
    joined = asof_join(events, spans, on=("t", "e"), strategy="forward")
    assert joined.column("v").to_pylist() == [1, 1]
    aggs = {"n": agg.count()}
    counted = overlap_join(events, spans, on=(("t", "t"), ("s", "e")), aggs=aggs)
    assert counted.column("n").to_pylist() == [1, 1]


def test_a_result_that_would_need_such_a_time_says_what_to_write():
    far = pa.table({"t": pa.array([dt.datetime.fromisoformat("9999-12-31")], pa.timestamp("us"))})
    near = pa.table({"t": pa.array([NOW], pa.timestamp("ns"))})
    text = r"does not fit 64 bits in ns; cast the other time column to timestamp\[us\], or filter"
    with pytest.raises(TidegateError, match=text):
        aggregate([near, far], on="t", size="1d", aggs={"n": agg.count()})
    with pytest.raises(TidegateError, match=text):
        asof_join(near, far, on="t", strategy="nearest")
    key = {"by": "k", "on": "t", "lower": None, "upper": None, "how": "full"}
    sides = [side.append_column("k", side.column("t")) for side in (near, far)]
    sides[1] = sides[1].set_column(0, "t", near.column("t"))
    with pytest.raises(TidegateError, match=r"a key does not fit .*; cast the keys of both sides"):
        interval_join(*sides, **key)


BEYOND = "9999-12-31T00:00:00 does not fit 64 bits in ns; cast the other time"


@pytest.mark.parametrize("far_side", ["left", "right"])
def test_a_value_without_a_place_is_named(far_side):
    ends = [dt.datetime.fromisoformat(day) for day in ("2026-01-01", "9999-12-31")]
    columns = {"left": pa.array([NOW, NOW], pa.timestamp("ns"))}
    columns["right"] = columns["left"]
    columns[far_side] = pa.array(ends, pa.timestamp("us"))
    sides = [pa.table({"t": columns[side], "n": [1, 1]}) for side in ("left", "right")]
    named = f"^{far_side}: column `t`, row 1: {BEYOND}"
    for within in ("1h", ("1h", None), (None, "0s")):
        with pytest.raises(TidegateError, match=named):
            band_join(*sides, on="t", within=within)
    with pytest.raises(TidegateError, match=f"^{far_side}: column `t`, row 1: {BEYOND}"):
        asof_join(*sides, on="t", strategy="nearest")
    together: dict[str, Any] = {"on": "n", "lower": 0, "upper": 0}
    with pytest.raises(TidegateError, match=rf"^where `{far_side}\.t`: {BEYOND}"):
        interval_join(*sides, **together, where="right.t - left.t < INTERVAL '1 hour'")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (
            "left.n * right.n > 0",
            r"4611686018427387904 \* 4611686018427387904 overflows int64; cast",
        ),
        ("left.d + right.d > left.d", r"overflows duration\[s\]; filter"),
        ("CAST(left.n AS INTEGER) > 0", "4611686018427387904 is not a value of int32; filter"),
        ("left.t - right.t + INTERVAL '1 nanosecond' > left.d", None),
        (
            "coalesce(left.d, INTERVAL '1 nanosecond') > left.d",
            "4611686018427387904 does not fit 64 bits in ns; cast the other duration to duration",
        ),
        ("left.t + INTERVAL '1 nanosecond' > right.t", "4611686018427387904 does not fit 64 bits"),
    ],
)
def test_conditions_name_values_beyond_their_types(where, text):
    most = 2**62
    side = pa.table(
        {
            "n": [most],
            "d": pa.array([most], pa.duration("s")),
            "t": pa.array([most], pa.timestamp("s")),
        }
    )
    join: dict[str, Any] = {"on": "n", "lower": 0, "upper": 0, "where": where, "columns": []}
    if text is None:
        assert interval_join(side, side, **join).num_rows == 0
        return
    with pytest.raises(TidegateError, match=f"^where .*: .*{text}"):
        interval_join(side, side, **join)


def test_durations_of_different_units_compare_exactly():
    long = pa.table({"t": [0, 0], "d": pa.array([2**40, -(2**40)], pa.duration("s"))})
    short = pa.table({"t": [0], "e": pa.array([5], pa.duration("ns"))})
    for text, holds in OPERATORS.items():
        joined = interval_join(
            long, short, on="t", lower=0, upper=0, where=f"left.d {text} right.e"
        )
        kept = [steps for steps in (2**40, -(2**40)) if holds(steps * 10**9, 5)]
        assert joined.column("d").cast(pa.int64()).to_pylist() == kept


def test_a_file_whose_row_group_is_not_read_agrees_with_the_table(tmp_path):
    near = pa.table({"t": pa.array([NOW, NOW + 10**9], pa.timestamp("ns")), "n": [1, 2]})
    far = [
        dt.datetime.fromisoformat("2026-01-01"),
        dt.datetime.fromisoformat("9999-12-31"),
        dt.datetime.fromisoformat("9999-12-31"),
    ]
    spans = pa.table({"t": pa.array(far, pa.timestamp("us")), "v": [1, 2, 3]})
    pq.write_table(spans, tmp_path / "spans.parquet", row_group_size=1)
    for upper in ("0s", "1s", None):
        query = {"on": "t", "lower": "-1s", "upper": upper}
        expected = interval_join(near, spans, **query)
        assert interval_join(near, tmp_path / "spans.parquet", **query).equals(expected)
        assert expected.column("v").to_pylist()[0] == 1
