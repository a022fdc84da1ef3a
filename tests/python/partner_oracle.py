"""A reference implementation of aggregates of partners: a nested loop in plain Python."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

import oracle
import window_oracle
from tidegate import agg

Rows = list[oracle.Row]


def _paired(numbers: pa.ListArray, texts: pa.ListArray) -> list[str]:
    both = zip(numbers.to_pylist(), texts.to_pylist(), strict=True)
    return ["".join(f"{r}{s}" for r, s in zip(*lists, strict=True)) for lists in both]


# Each function with a name, its type, and the value that plain Python computes from a row's
# partners. The values of `v` are chosen so that no sum of them is rounded.
FUNCTIONS: dict[str, tuple[agg.Aggregate, pa.DataType, Callable[[Rows], object]]] = {
    "n": (agg.count(), pa.int64(), len),
    "n_x": (agg.count("x"), pa.int64(), lambda rows: len(known(rows, "x"))),
    "sum_x": (
        agg.sum("x"),
        pa.int64(),
        lambda rows: sum(known(rows, "x")) if known(rows, "x") else None,
    ),
    "sum_v": (
        agg.sum("v"),
        pa.float64(),
        lambda rows: float(sum(known(rows, "v"))) if known(rows, "v") else None,
    ),
    "mean_v": (agg.mean("v"), pa.float64(), lambda rows: _mean(known(rows, "v"))),
    "mean_r": (agg.mean("r"), pa.float64(), lambda rows: _mean(known(rows, "r"))),
    "min_v": (
        agg.min("v"),
        pa.float64(),
        lambda rows: min(known(rows, "v"), key=_order, default=None),
    ),
    "max_v": (
        agg.max("v"),
        pa.float64(),
        lambda rows: max(known(rows, "v"), key=_order, default=None),
    ),
    "max_r": (agg.max("r"), pa.int64(), lambda rows: max(known(rows, "r"), default=None)),
    "min_s": (agg.min("s"), pa.string(), lambda rows: min(known(rows, "s"), default=None)),
    "first": (agg.first("x"), pa.int64(), lambda rows: rows[0]["x"] if rows else None),
    "last": (agg.last("r"), pa.int64(), lambda rows: rows[-1]["r"] if rows else None),
    "weighted": (
        agg.weighted_mean("r", "x"),
        pa.float64(),
        lambda rows: _weighted([(row["r"], row["x"]) for row in rows if row["x"] is not None]),
    ),
    "product": (
        agg.product("x"),
        pa.float64(),
        lambda rows: float(math.prod(known(rows, "x"))) if known(rows, "x") else None,
    ),
    "any": (
        agg.any("b"),
        pa.bool_(),
        lambda rows: any(known(rows, "b")) if known(rows, "b") else None,
    ),
    "all": (
        agg.all("b"),
        pa.bool_(),
        lambda rows: all(known(rows, "b")) if known(rows, "b") else None,
    ),
    "median_v": (
        agg.median("v"),
        pa.float64(),
        lambda rows: window_oracle.quantile(known(rows, "v"), 0.5, "midpoint"),
    ),
    "p30_r": (
        agg.quantile("r", 0.3, interpolation="higher"),
        pa.float64(),
        lambda rows: window_oracle.quantile(known(rows, "r"), 0.3, "higher"),
    ),
    "distinct_v": (
        agg.count_distinct("v"),
        pa.int64(),
        lambda rows: len({str(value) for value in known(rows, "v")}),
    ),
    "distinct_s": (agg.count_distinct("s"), pa.int64(), lambda rows: len(set(known(rows, "s")))),
    "collect_s": (
        agg.collect("s"),
        pa.list_(pa.string()),
        lambda rows: [row["s"] for row in rows] or None,
    ),
    "pairs": (
        agg.udf(_paired, ["r", "s"], pa.string()),
        pa.string(),
        lambda rows: "".join(f"{row['r']}{row['s']}" for row in rows) or None,
    ),
    "arg_min": (
        agg.arg_min("r", "v"),
        pa.int64(),
        lambda rows: min(
            (row for row in rows if row["v"] is not None),
            key=lambda row: _order(row["v"]),
            default={"r": None},
        )["r"],
    ),
    "arg_max": (
        agg.arg_max("s", "s", where="row.x > 0"),
        pa.string(),
        lambda rows: max(known([row for row in rows if (row["x"] or 0) > 0], "s"), default=None),
    ),
    "some": (
        agg.last("r", where="row.x > 0"),
        pa.int64(),
        lambda rows: next((row["r"] for row in reversed(rows) if (row["x"] or 0) > 0), None),
    ),
    "some_n": (
        agg.count(where="row.x > 0"),
        pa.int64(),
        lambda rows: len([row for row in rows if (row["x"] or 0) > 0]),
    ),
}

AGGS = {name: function for name, (function, _, _) in FUNCTIONS.items()}


def known(rows: Rows, name: str) -> list:
    """Return the values that are not null."""
    return [row[name] for row in rows if row[name] is not None]


def _mean(values: list) -> float | None:
    return float(sum(values)) / len(values) if values else None


def _weighted(pairs: list[tuple[int, int]]) -> float | None:
    weight = sum(weight for _, weight in pairs)
    total = sum(value * weight for value, weight in pairs)
    if not pairs:
        return None
    return total / weight if weight else math.nan


def _order(value: float) -> tuple[bool, float]:
    # NaN is larger than any other float, and 0.0 is larger than -0.0.
    return (math.isnan(value), (0.0 if math.isnan(value) else value), math.copysign(1, value))


def partners(
    left: pa.Table, right: pa.Table, join: oracle.Join, *, prevailing: bool = False
) -> list[list[int]]:
    """Return the right rows that each left row would pair with, by time, then row number."""
    times = oracle.times(right.column(join.on[1]))
    found: list[set[int]] = [set() for _ in range(left.num_rows)]
    for i, j in oracle.nested_loop(left, right, replace(join, how="inner")):
        found[i].add(j)
    if prevailing:
        # All rows with the key that precede the interval; the last one is used.
        before = replace(join, lower=None, upper=join.lower, how="inner", where=lambda _a, _b: True)
        before = replace(before, closed="left" if join.closed in ("both", "left") else "both")
        last: dict[int, int] = {}
        for i, j in oracle.nested_loop(left, right, before):
            if i not in last or (times[j], j) > (times[last[i]], last[i]):
                last[i] = j
        rows = left.to_pylist(), right.to_pylist()
        for i, j in last.items():
            if join.where(rows[0][i], rows[1][j]) is True:
                found[i].add(j)
    return [sorted(places, key=lambda j: (times[j], j)) for places in found]


def expected(left: pa.Table, right: pa.Table, found: Sequence[Sequence[int]], how: str) -> pa.Table:
    """Return the result: the left rows, and the value of each function of their partners."""
    rows = right.to_pylist()
    kept = [i for i, places in enumerate(found) if places or how == "left"]
    table = oracle.result(
        left, left, [(i, None) for i in kept], oracle.Join(("ts", "ts"), 0, 0, how="semi")
    )
    for name, (_, type_, value) in FUNCTIONS.items():
        values = [value([rows[j] for j in found[i]]) for i in kept]
        table = table.append_column(name, pa.array(values, type_))
    return table
