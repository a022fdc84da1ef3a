"""Reference implementations of interval joins: a nested loop in plain Python, and DuckDB SQL.

Both return the matching rows as row numbers of the two sides. pyarrow then takes the columns of the
result, so no tested code contributes to the expected result.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, object]
Pair = tuple[int | None, int | None]

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9


@dataclass(frozen=True)
class Join:
    """An interval join. `lower` and `upper` are in nanoseconds, or in steps for integer times."""

    on: tuple[str, str]
    lower: int | None
    upper: int | None
    by: Sequence[tuple[str, str]] = ()
    closed: str = "both"
    how: str = "inner"
    where: Callable[[Row, Row], bool | None] = lambda _left, _right: True


def step(type_: pa.DataType) -> int:
    """Return the nanoseconds in a step of a time type, or 1 for integers, which count steps."""
    if pa.types.is_timestamp(type_):
        return NANOSECONDS[type_.unit]
    return {pa.date32(): DAY, pa.date64(): 10**6}.get(type_, 1)


def times(column: pa.ChunkedArray) -> list[int]:
    """Return times as Python integers, so that sums cannot overflow."""
    if pa.types.is_integer(column.type):
        return column.to_pylist()
    storage = pa.int32() if column.type == pa.date32() else pa.int64()
    return [time * step(column.type) for time in column.cast(storage).to_pylist()]


def keys(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return each row's key values, converted so that `==` compares them as documented."""
    columns = [map(_key, table.column(name).to_pylist()) for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _key(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def nested_loop(left: pa.Table, right: pa.Table, join: Join) -> list[Pair]:
    """Return the row numbers of the result in order, with `None` for a side without a row."""
    left_times, right_times = times(left.column(join.on[0])), times(right.column(join.on[1]))
    left_keys = keys(left, [name for name, _ in join.by])
    right_keys = keys(right, [name for _, name in join.by])
    left_rows, right_rows = left.to_pylist(), right.to_pylist()

    def matches(i: int, j: int) -> bool:
        return (
            None not in left_keys[i]
            and left_keys[i] == right_keys[j]
            and within(right_times[j] - left_times[i], join)
            and join.where(left_rows[i], right_rows[j]) is True
        )

    matched = [[j for j in range(len(right_rows)) if matches(i, j)] for i in range(len(left_rows))]
    return listed(matched, join.how, len(right_rows))


def listed(matched: Sequence[Sequence[int]], how: str, right_rows: int) -> list[Pair]:
    """Return the row numbers of the result, given the right rows that each left row matches."""
    if how == "semi":
        return [(i, None) for i, found in enumerate(matched) if found]
    if how == "anti":
        return [(i, None) for i, found in enumerate(matched) if not found]
    pairs: list[Pair] = []
    for i, found in enumerate(matched):
        pairs.extend((i, j) for j in found)
        if not found and how in ("left", "full"):
            pairs.append((i, None))
    if how in ("right", "full"):
        used = {j for found in matched for j in found}
        pairs.extend((None, j) for j in range(right_rows) if j not in used)
    return pairs


def within(difference: int, join: Join) -> bool:
    """Return whether the times of a left and a right row match."""
    above = join.lower is None or (
        difference > join.lower or (difference == join.lower and join.closed in ("both", "left"))
    )
    below = join.upper is None or (
        difference < join.upper or (difference == join.upper and join.closed in ("both", "right"))
    )
    return above and below


def duckdb_pairs(left: pa.Table, right: pa.Table, join: Join) -> list[Pair]:
    """Compute the same result with DuckDB, without `where`."""
    lower_sign = ">=" if join.closed in ("both", "left") else ">"
    upper_sign = "<=" if join.closed in ("both", "right") else "<"
    conditions = [f'l."{a}" = r."{b}"' for a, b in join.by]
    if join.lower is not None:
        conditions.append(f"r.tick {lower_sign} l.tick + {join.lower}")
    if join.upper is not None:
        conditions.append(f"r.tick {upper_sign} l.tick + {join.upper}")
    wanted = "l.place, NULL" if join.how in ("semi", "anti") else "l.place, r.place"
    query = (
        f"SELECT {wanted} FROM l {join.how} JOIN r ON {' AND '.join(conditions) or 'TRUE'} "  # noqa: S608 - our names
        "ORDER BY 1 NULLS LAST, 2"
    )
    import duckdb  # noqa: PLC0415 - it has no free-threaded build

    with duckdb.connect(config={"threads": 2}) as connection:
        for name, table, on in (("l", left, join.on[0]), ("r", right, join.on[1])):
            ticks = pc.multiply(table.column(on).cast(pa.int64()), step(table.column(on).type))
            places = pa.array(range(table.num_rows), pa.int64())
            numbered = table.append_column("tick", ticks).append_column("place", places)
            connection.register(name, numbered)
        return connection.sql(query).fetchall()


def result(
    left: pa.Table, right: pa.Table, pairs: Sequence[Pair], join: Join, suffix: str = "_right"
) -> pa.Table:
    """Return the result's columns for these rows, with their documented names and order."""
    left_places = pa.array([i for i, _ in pairs], pa.int64())
    right_places = pa.array([j for _, j in pairs], pa.int64())
    shared = [a for a, b in join.by if a == b]
    columns = {name: _take(left.column(name), left_places) for name in left.column_names}
    if join.how in ("semi", "anti"):
        return pa.table(columns)
    if join.how in ("right", "full"):
        for name in shared:
            columns[name] = _either(left.column(name), right.column(name), pairs)
    for name in right.column_names:
        if name not in shared:
            clash = name in left.column_names
            columns[name + suffix if clash else name] = _take(right.column(name), right_places)
    return pa.table(columns)


def _take(column: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray:
    # pyarrow takes rows from columns of all types except views.
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(column.type)
    if plain is None:
        return column.take(places)
    return column.cast(plain).take(places).cast(column.type)


def _either(left: pa.ChunkedArray, right: pa.ChunkedArray, pairs: Sequence[Pair]) -> pa.Array:
    """Return the left value if there is a left row, else the right value, in the left type."""
    of_left, of_right = left.to_pylist(), right.to_pylist()
    return pa.array([of_right[j] if i is None else of_left[i] for i, j in pairs], left.type)


def expected(left: pa.Table, right: pa.Table, join: Join) -> pa.Table:
    """Return the whole result, computed by the nested loop."""
    return result(left, right, nested_loop(left, right, join), join)


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    """Check names, types, values and order. Here NaN equals NaN, and 0.0 differs from -0.0."""
    found.validate(full=True)
    assert found.schema.names == wanted.schema.names
    assert found.schema.types == wanted.schema.types
    assert found.num_rows == wanted.num_rows
    for name in wanted.column_names:
        assert repr(found.column(name).to_pylist()) == repr(wanted.column(name).to_pylist()), name
