"""Random aggregations compared with an oracle: the same rows, values, bits and order."""

import datetime as dt
import math
from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given

import window_oracle
from tidegate import Expr, agg, aggregate, row
from window_oracle import Windows

ALGORITHMS = ["auto", "slices", "mq", "mq-lf", "tumlsc", "tumlmc", "wiml"]

FUNCTIONS = ["count", "sum", "mean", "min", "max", "first", "last", "var", "std"]

KEYS = {
    "k": (pa.string(), ["a", "b", "", None]),
    "i": (pa.int32(), [-1, 0, 7, None]),
    "f": (pa.float64(), [0.5, -1.5, math.nan, None]),
}
# Sums of these values depend on the order of additions.
FLOATS = [0.1, 0.7, 1e16, -1e16, 1e-9, 3.0, -0.0, None]
VALUES = {
    "x": (pa.float64(), FLOATS),
    "n": (pa.int64(), [-3, 0, 5, 2**56, -(2**56), None]),
    "t": (pa.string(), ["", "a", "ab", "b", None]),
    "d": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("12.25"), None]),
}
# Functions that accept strings, decimals and other ordered values.
ORDERED = ["count", "min", "max", "first", "last"]

# Functions of two columns, with the columns allowed as the first and the second argument.
PAIRED = {
    "arg_min": (sorted(VALUES), sorted(VALUES)),
    "arg_max": (sorted(VALUES), sorted(VALUES)),
    "covar": (["x", "n"], ["x", "n"]),
    "corr": (["x", "n"], ["x", "n"]),
}
# Functions that need all values of a window, for which streams keep rows.
ALL_VALUES = ["median", "quantile", "count_distinct", "collect"]
INTERPOLATIONS = ["linear", "nearest", "lower", "higher", "midpoint"]

# A condition in the form that tidegate accepts, and as a function for the oracle.
CONDITIONS: list[tuple[str | Expr | None, object]] = [
    (None, lambda _row: True),
    ("n > 0", lambda r: r["n"] is not None and r["n"] > 0),
    (row.x.is_not_null(), lambda r: r["x"] is not None),
    ((row.k == "a") | (row.i == 0), lambda r: r["k"] == "a" or r["i"] == 0),
    ("n > 5 AND n < 0", lambda _row: False),
]


@st.composite
def streams(draw: st.DrawFn) -> list[list[dict]]:
    """Draw a few streams whose times are close together, sorted or not."""
    columns = {**KEYS, **VALUES}
    span = draw(st.sampled_from([5, 40, 300]))
    record = st.fixed_dictionaries(
        {"ts": st.integers(-span, span)}
        | {name: st.sampled_from(values) for name, (_, values) in columns.items()}
    )
    found = draw(st.lists(st.lists(record, max_size=15), min_size=1, max_size=4))
    if draw(st.booleans()):
        found = [sorted(rows, key=lambda one: one["ts"]) for rows in found]
    return found


@st.composite
def shapes(draw: st.DrawFn) -> Windows:
    """Draw sizes, whether or not multiples of the advance, and advances larger than the size."""
    return Windows(draw(st.integers(1, 30)), draw(st.integers(1, 20)), draw(st.integers(-25, 25)))


@st.composite
def aggregates(draw: st.DrawFn) -> tuple[dict, dict]:
    """Draw functions for tidegate, and the same functions for the oracle."""
    ours, theirs = {}, {}
    for place in range(draw(st.integers(0, 4))):
        condition, counts = draw(st.sampled_from(CONDITIONS))
        text = None if condition is None else str(condition)
        kind = draw(st.sampled_from(["one", "two", "all"]))
        if kind == "two":
            function = draw(st.sampled_from(sorted(PAIRED)))
            first, second = (draw(st.sampled_from(names)) for names in PAIRED[function])
            ours[f"a{place}"] = agg.Aggregate(function, first, text, second)
            theirs[f"a{place}"] = (function, (first, second), counts)
            continue
        if kind == "all":
            function = draw(st.sampled_from(ALL_VALUES))
            is_number = function in ("median", "quantile")
            column = draw(st.sampled_from(["x", "n"] if is_number else sorted(VALUES)))
            share = draw(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]))
            interpolation = draw(st.sampled_from(INTERPOLATIONS))
            if function == "quantile":
                ours[f"a{place}"] = agg.quantile(
                    column, share, interpolation=interpolation, where=text
                )
                theirs[f"a{place}"] = (function, (column, (share, interpolation)), counts)
                continue
            ours[f"a{place}"] = agg.Aggregate(function, column, text)
            theirs[f"a{place}"] = (function, column, counts)
            continue
        column = draw(st.sampled_from(sorted(VALUES)))
        function = draw(st.sampled_from(FUNCTIONS if column in ("x", "n") else ORDERED))
        if function == "count" and draw(st.booleans()):
            column = None
        ours[f"a{place}"] = agg.Aggregate(function, column, text)
        theirs[f"a{place}"] = (function, column, counts)
    return ours, theirs


def table(rows: list[dict], cuts: list[int]) -> pa.Table:
    """Divide the rows into chunks."""
    types = {"ts": pa.int64()} | {name: type_ for name, (type_, _) in {**KEYS, **VALUES}.items()}
    schema = pa.schema(types.items())
    ends = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    batches = [pa.RecordBatch.from_pylist(rows[start:end], schema) for start, end in ends]
    return pa.Table.from_batches(batches, schema)


def chunked(draw: st.DrawFn, found: list[list[dict]]) -> list[pa.Table]:
    cuts = [sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3))) for rows in found]
    return [table(rows, cut) for rows, cut in zip(found, cuts, strict=True)]


def text(rows: list[dict]) -> str:
    """Format rows with every bit of their floats, and NaN in the same form for keys and values."""
    return repr(rows).replace("'NaN'", "nan")


@given(st.data(), streams(), shapes(), aggregates(), st.integers(1, 6))
def test_every_window_from_scratch(data, found, windows, functions, threads):
    by = data.draw(st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=3))
    condition, holds = data.draw(st.sampled_from(CONDITIONS))
    ours, theirs = functions
    result = aggregate(
        chunked(data.draw, found),
        on="ts",
        size=windows.size,
        advance=windows.advance,
        offset=windows.offset,
        by=by,
        aggs=ours,
        where=condition,
        algorithm=data.draw(st.sampled_from(ALGORITHMS)),
        threads=threads,
    )
    result.validate(full=True)
    # A stream that is not in time order is first sorted by a stable sort.
    ordered = [sorted(rows, key=lambda one: one["ts"]) for rows in found]
    wanted = window_oracle.aggregate(ordered, windows, by, theirs, holds)
    assert text(result.to_pylist()) == text(wanted)


@given(st.data(), streams(), shapes())
def test_times_and_durations_of_every_form(data, found, windows):
    second = dt.timedelta(seconds=1)
    forms = {
        "integer": (pa.int64(), lambda steps: steps),
        "seconds": (pa.timestamp("s"), lambda steps: f"{steps}s"),
        "zoned": (pa.timestamp("ms", "Europe/Paris"), lambda steps: steps * second),
        "days": (pa.date32(), lambda steps: f"{steps}d"),
        "small": (pa.int32(), lambda steps: steps),
    }
    name, (type_, spelled) = data.draw(st.sampled_from(sorted(forms.items())))
    tables = [table(rows, []) for rows in found]
    scale = 1000 if name == "zoned" else 1
    for at, one in enumerate(tables):
        times = pa.array([record["ts"] * scale for record in found[at]], pa.int64())
        plain = times.cast(pa.int32()) if type_ in (pa.date32(), pa.int32()) else times
        tables[at] = one.set_column(0, "ts", plain.cast(type_))
    result = aggregate(
        tables,
        on="ts",
        size=spelled(windows.size),
        advance=spelled(windows.advance),
        offset=spelled(windows.offset),
        by="k",
        aggs={"n": agg.count()},
    )
    wanted = window_oracle.aggregate(found, windows, ["k"], {"n": ("count", None, lambda _: True)})
    returned = pa.int64() if pa.types.is_integer(type_) else type_
    assert result.schema.types[:2] == [returned, returned]
    starts = result["window_start"]
    starts = starts.cast(pa.int32()) if type_ == pa.date32() else starts
    assert [at // scale for at in starts.cast(pa.int64()).to_pylist()] == [
        one["window_start"] for one in wanted
    ]
    assert result.select(["k", "n"]).to_pylist() == [
        {"k": one["k"], "n": one["n"]} for one in wanted
    ]
