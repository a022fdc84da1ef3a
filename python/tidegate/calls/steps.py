"""Joins several tables, one step after the other, without large intermediate results.

The rows and their order are those of nested calls, in which each step joins the result of the
previous step with another table::

    table 0 --- step 1 --- step 2 --- ... --- result
                  |          |
               table 1    table 2

1. *Reduce.* If a step compares only columns of one earlier table, that table's rows without a
   partner cannot be in the result. A semi-join removes these rows before any step runs. Tables are
   reduced from the last to the first, so that each reduction uses tables that are already reduced.
2. *Join.* The steps join row numbers and the columns that later steps compare. The first step's
   result is read in blocks, and each block passes through all other steps before the next block is
   read. The result of a step is therefore never in memory as a whole.
3. *Gather.* The remaining columns are looked up by row number, once per block of the result.

A step that returns unmatched right rows, or whose windows count rows, depends on all of its left
rows. If there is such a step, no table is reduced, and the step receives all left rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate import _tidegate
from tidegate.windows import Rows

if TYPE_CHECKING:
    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.io.open_tables import OpenTable

Column = tuple[int, str]
"""A column of an input: the table's number, and the column's name."""

# The minimum and maximum number of rows in a block. In between, a block has as many rows as the
# largest right table, because each block is joined with all rows of the right tables.
BLOCK_ROWS = (1 << 20, 1 << 24)

# The number of rows in a sample that shows whether a reduction is worthwhile, and the share of rows
# above which it is not.
SAMPLE_ROWS = 1 << 13
MOST_KEPT = 0.8


@dataclass(frozen=True)
class Reduction:
    """Removes the rows of a table that have no partner in the right table of a step."""

    table: int
    step: int
    query: JoinQuery
    names: dict[str, str]
    """The columns of the table that the query reads, by their names in the query."""

    right: list[str]


@dataclass
class PlannedStep:
    """A step that fits the results of the earlier steps."""

    query: JoinQuery
    left: pa.Schema
    right: pa.Schema
    plan: JoinPlan
    origins: dict[str, Column | None]
    """The origins of the result columns; None for columns that the step computes."""

    names: list[str] = field(default_factory=list)
    """The result columns that later steps read, or that are computed and returned."""

    needed: tuple[list[str], list[str]] = ([], [])
    """The columns that both sides must contain."""

    @property
    def needs_all(self) -> bool:
        """Return whether the step depends on all left rows together."""
        return self.query.how in ("right", "full") or self._counts_rows

    @property
    def _counts_rows(self) -> bool:
        window = self.query.arguments.get("window")
        return any(
            isinstance(one, Rows) for one in (window if isinstance(window, tuple) else [window])
        )

    def returning(self, names: Sequence[str]) -> JoinQuery:
        """Return the query that returns only these columns, and all aggregates."""
        functions = self.query.arguments.get("aggs") or {}
        return self.query.replace(columns=[name for name in names if name not in functions])

    @property
    def is_of_pairs(self) -> bool:
        """Return whether the step returns pairs, each of which depends only on its two rows."""
        given = self.query.arguments
        chooses = self.query.function == "asof_join" or given.get("limit") is not None
        is_plain = not chooses and not given.get("aggs")
        return is_plain and self.query.how == "inner" and not self._counts_rows

    @property
    def drops_unmatched(self) -> bool:
        """Return whether the step drops the left rows that have no partner."""
        given = self.query.arguments
        functions = (given.get("aggs") or {}).values()
        has_more = given.get("prevailing") or any(map(_has_interval, functions))
        has_more = has_more or _makes_values(self.query)
        return self.query.how in ("inner", "semi") and not self._counts_rows and not has_more


def _makes_values(query: JoinQuery) -> bool:
    """Return whether right columns contain lists, interpolated values or values at offsets."""
    given = query.arguments
    return (
        any(given.get(name) is not None for name in ("at", "n"))
        or bool(given.get("long"))
        or given.get("strategy") == "interpolate"
    )


def _has_interval(function: Any) -> bool:  # noqa: ANN401 - an aggregate
    names = ("lower", "upper", "closed", "prevailing")
    return any(getattr(function, name, None) is not None for name in names)


def opened(name: str, given: Any) -> pa.Table | OpenTable:  # noqa: ANN401 - any input
    """Return Arrow data as a validated table, and open other inputs."""
    if _tidegate.is_arrow(given):
        table = pa.table(given)
        for batch in table.to_batches():
            _tidegate._check(batch, name)  # noqa: SLF001 - internal to the package
        return table
    # Imported late, because it imports the modules that read files.
    from tidegate.calls import inputs  # noqa: PLC0415

    return inputs.opened(name, given)


def _read(name: str, one: pa.Table | OpenTable, columns: list[str]) -> pa.Table:
    if isinstance(one, pa.Table):
        return one.select(columns)
    # Imported late, as above.
    from tidegate.calls import inputs  # noqa: PLC0415

    return inputs.read_table(name, one, columns)


class Steps:
    """Steps whose names and types fit the tables.

    Args:
        schemas: The schemas of all tables, the first table first.
        queries: The query of each step.

    Raises:
        TidegateError: A step does not fit the tables; the message contains the step's number.
    """

    def __init__(self, schemas: Sequence[pa.Schema], queries: Sequence[JoinQuery]) -> None:
        """Plan the steps."""
        self.schemas = [*schemas]
        self.steps: list[PlannedStep] = []
        middle = schemas[0]
        origins: dict[str, Column | None] = {name: (0, name) for name in middle.names}
        for number, query in enumerate(queries, 1):
            right = schemas[number]
            try:
                plan = query.plan(middle, right)
            except tidegate.TidegateError as error:
                message = f"step {number}: {error}"
                raise type(error)(message) from None
            found = {
                name: _origin(name, pair, origins, None if _makes_values(query) else number)
                for name, pair in zip(plan.schema.names, plan.origins, strict=True)
            }
            self.steps.append(PlannedStep(query, middle, right, plan, found))
            middle, origins = plan.schema, found
        self.schema = middle
        self.origins = origins
        self._choose_columns()
        self.reductions = self._reductions()
        # The columns of the result that are looked up in each table.
        self.gathered: dict[int, list[tuple[str, str]]] = {}
        for name, origin in self.origins.items():
            if origin is not None:
                self.gathered.setdefault(origin[0], []).append((name, origin[1]))

    def _choose_columns(self) -> None:
        """Find the columns that each step needs, from the last step to the first."""
        wanted = {name for name, origin in self.origins.items() if origin is None}
        for step in reversed(self.steps):
            step.names = [name for name in step.plan.schema.names if name in wanted]
            step.needed = step.returning(step.names).plan(step.left, step.right).needed
            wanted = {*step.needed[0]}

    def _reductions(self) -> list[Reduction]:
        """Find the tables that can be reduced, in the order in which to reduce them."""
        if any(step.needs_all for step in self.steps):
            return []
        equal = _Equal()
        found = []
        for number, step in enumerate(self.steps, 1):
            reduction = self._reduction(number, step, equal) if step.drops_unmatched else None
            found += [] if reduction is None else [reduction]
            if step.is_of_pairs:
                before = self._origins_before(number)
                for left, right in step.plan.keys:
                    if (origin := before[left]) is not None:
                        equal.add(origin, (number, right))
        return sorted(found, key=lambda one: -one.table)

    def _origins_before(self, number: int) -> dict[str, Column | None]:
        if number > 1:
            return self.steps[number - 2].origins
        return {name: (0, name) for name in self.schemas[0].names}

    def _reduction(self, number: int, step: PlannedStep, equal: _Equal) -> Reduction | None:
        """Return the reduction of an earlier table by a step, if the step compares its columns."""
        origins = self._origins_before(number)
        plain = step.query.replace(
            how="semi", columns=[], by=None, where=None, **_without_functions(step.query)
        )
        compared = [origins[name] for name in plain.plan(step.left, step.right).left_columns]
        tables = {None if origin is None else origin[0] for origin in compared}
        table = tables.pop() if len(tables) == 1 else None
        if table is None or (table > 0 and not self.steps[table - 1].is_of_pairs):
            return None
        keys = {left: equal.find(origins[left], table) for left, _ in step.plan.keys}
        by = [pair for pair in step.plan.keys if keys[pair[0]] is not None] or None
        read = [origins[name] for name in step.plan.condition_columns[0]]
        is_read_here = all(origin is not None and origin[0] == table for origin in read)
        where = step.query.arguments.get("where") if is_read_here else None
        query = plain.replace(by=by, where=where)
        needed = query.plan(step.left, step.right).needed
        names = {}
        for name in needed[0]:
            origin = keys.get(name) or equal.find(origins[name], table)
            if origin is None:
                return None
            names[name] = origin[1]
        return Reduction(table, number, query, names, needed[1])

    def read(self, every: Mapping[str, pa.Table | OpenTable]) -> list[pa.Table]:
        """Read the columns that are used. The inputs have the schemas of the steps."""
        used = [{*self.steps[0].needed[0]}, *({*step.needed[1]} for step in self.steps)]
        for number, names in self.gathered.items():
            used[number] |= {column for _, column in names}
        for one in self.reductions:
            used[one.table] |= {*one.names.values()}
            used[one.step] |= {*one.right}
        return [
            _read(name, one, [column for column in one.schema.names if column in columns])
            for (name, one), columns in zip(every.items(), used, strict=True)
        ]

    def explain(self) -> str:
        """Describe the steps and the reductions."""
        lines = [f"join_all of {len(self.schemas)} tables"]
        for number, step in enumerate(self.steps, 1):
            first, second, *_ = step.plan.explanation.splitlines()
            lines.append(f"  step {number}     {first}, {' '.join(second.split())}")
        for one in self.reductions:
            of = "the first table" if one.table == 0 else f"the table of step {one.table}"
            lines.append(f"  reduction  rows of {of} that have no partner in step {one.step}")
        if any(step.needs_all for step in self.steps):
            lines.append("  reduction  none, because a step depends on all of its left rows")
        low, high = BLOCK_ROWS
        lines += [
            "  algorithm  row numbers are joined block by block, then columns are looked up",
            f"  memory     inputs + 4 bytes per row + blocks of {low:,} to {high:,} rows, + result",
            f"  output     {len(self.schema)} columns, in the order of nested calls",
        ]
        return "\n".join(lines)

    def run(self, tables: Sequence[pa.Table], threads: int | None) -> Iterator[pa.Table | None]:
        """Yield the result in tables; yields None from time to time."""
        return _Run(self, tables, threads).results()


def _origin(
    name: str,
    pair: tuple[str | None, str | None],
    origins: dict[str, Column | None],
    number: int | None,
) -> Column | None:
    """Return the origin of a result column, given the columns from which it is computed.

    `number` is the number of the right table; None if its values are not returned unchanged.
    """
    left, right = pair
    if left is not None and right is None:
        # A column of offsets is computed from the left times. Left columns keep their names.
        return origins[left] if name == left else None
    if left is None and right is not None and number is not None:
        return number, right
    return None


def _without_functions(query: JoinQuery) -> dict[str, Any]:
    """Return the arguments with which a query returns all pairs instead of aggregates or some."""
    without = {"aggs": None, "prevailing": False, "limit": None, "order": None}
    return {name: value for name, value in without.items() if query.arguments.get(name)}


class _Equal:
    """Columns of different tables that have equal values in all rows of a result."""

    def __init__(self) -> None:
        self._sets: dict[Column, set[Column]] = {}

    def add(self, one: Column, other: Column) -> None:
        joined = self._sets.get(one, {one}) | self._sets.get(other, {other})
        self._sets |= dict.fromkeys(joined, joined)

    def find(self, column: Column | None, table: int) -> Column | None:
        """Return a column of the table that has the same values."""
        if column is None or column[0] == table:
            return column
        return next((one for one in sorted(self._sets.get(column, ())) if one[0] == table), None)


class _Run:
    """Executes the steps on tables."""

    def __init__(self, steps: Steps, tables: Sequence[pa.Table], threads: int | None) -> None:
        self._steps = steps
        self._threads = threads
        self._rows: list[pa.Array | None] = [None] * len(tables)
        """The numbers of the rows that remain in each table; None for all rows."""
        columns = {name for schema in steps.schemas for name in schema.names} | {
            *steps.schema.names
        }
        longest = max(map(len, columns), default=0)
        self._ids = [f"row{number}".ljust(longest + 1, "_") for number in range(len(tables))]
        self._gathered = steps.gathered
        self._tables = [table.unify_dictionaries().combine_chunks() for table in tables]
        most = max(table.num_rows for table in tables[1:])
        self._block = min(max(most, BLOCK_ROWS[0]), BLOCK_ROWS[1])

    def results(self) -> Iterator[pa.Table | None]:
        by_size = sorted(
            self._steps.reductions, key=lambda one: (-one.table, self._tables[one.step].num_rows)
        )
        for reduction in by_size:
            self._reduce(reduction)
            yield None
        first = self._steps.steps[0].needed[0]
        blocks: Iterator[pa.Table | None] = iter([self._narrow(0, {name: name for name in first})])
        for number, step in enumerate(self._steps.steps, 1):
            blocks = self._joined(number, step, blocks)
        for block in blocks:
            yield None if block is None else self._with_columns(block)

    def _narrow(self, number: int, names: dict[str, str], *, is_final: bool = True) -> pa.Table:
        """Return some columns of a table's remaining rows, and the row numbers if they are used."""
        table, rows = self._tables[number], self._rows[number]
        found = table.select([*names.values()]).rename_columns([*names])
        if rows is not None:
            found = _rows_of(found, rows)
        if is_final and number not in self._gathered:
            return found
        if rows is None:
            rows = pa.array(np.arange(table.num_rows, dtype=np.uint32))
        return found.append_column(self._ids[number], rows)

    def _reduce(self, reduction: Reduction) -> None:
        """Remove the rows of a table that have no partner, if there are enough of them."""
        number = reduction.table
        left = self._narrow(number, reduction.names, is_final=False)
        right = self._narrow(reduction.step, {name: name for name in reduction.right})
        query = reduction.query.replace(columns=[self._ids[number]], threads=self._threads)
        try:
            if left.num_rows > max(8 * SAMPLE_ROWS, right.num_rows):
                places = np.linspace(0, left.num_rows - 1, SAMPLE_ROWS).astype(np.int64)
                kept = query.table(_rows_of(left, pa.array(places)), right).num_rows
                if kept > MOST_KEPT * SAMPLE_ROWS:
                    return
            found = query.table(left, right)
        except tidegate.TidegateError:
            # The condition may fail for a pair that the steps never compare. If they do compare
            # it, the step raises the error.
            return
        if found.num_rows < left.num_rows:
            self._rows[number] = found.column(0).combine_chunks()

    def _joined(
        self, number: int, step: PlannedStep, blocks: Iterator[pa.Table | None]
    ) -> Iterator[pa.Table | None]:
        """Join each block with the right table of a step. Yields at least one table."""
        right = self._narrow(number, {name: name for name in step.needed[1]})
        is_empty, schema = True, None
        for block in _whole(blocks) if step.needs_all else _of_size(blocks, self._block):
            if block is None:
                yield None
                continue
            ids = [one for one in self._ids if one in block.column_names]
            ids += [self._ids[number]] if number in self._gathered else []
            query = step.returning([*step.names, *ids])
            query = query.replace(threads=self._threads, batch_rows=self._block)
            with query.batches(block, right) as reader:
                schema = reader.schema
                for batch in reader:
                    is_empty = False
                    yield pa.Table.from_batches([batch])
        if is_empty and schema is not None:
            yield schema.empty_table()

    def _with_columns(self, block: pa.Table) -> pa.Table:
        """Look up the columns of the result by row number."""
        found: dict[str, Any] = {}
        for number, names in self._gathered.items():
            columns = [*dict.fromkeys(column for _, column in names)]
            rows = block.column(self._ids[number]).combine_chunks()
            taken = {
                column: _taken(self._tables[number].column(column), rows) for column in columns
            }
            found |= {name: taken[column] for name, column in names}
        arrays = [
            found[name] if name in found else block.column(name)
            for name in self._steps.schema.names
        ]
        return pa.Table.from_arrays(arrays, schema=self._steps.schema)


def _rows_of(table: pa.Table, rows: pa.Array) -> pa.Table:
    columns = [_taken(column, rows) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Return the values at these rows; null for a row number that is null."""
    try:
        return column.take(rows)
    except pa.ArrowNotImplementedError:
        # pyarrow cannot look up values of some types, such as views. Joins return all types.
        places = pa.array(np.arange(len(column), dtype=np.uint32))
        values = pa.table({"row": places, "value": column})
        wanted = pa.table({"row": rows.fill_null(len(column))})
        query = _tidegate.interval_join_query(
            on="row", lower=0, upper=0, how="left", columns=["value"]
        )
        return query.table(wanted, values).column(0)


def _whole(blocks: Iterator[pa.Table | None]) -> Iterator[pa.Table | None]:
    """Combine all blocks into one table."""
    yield pa.concat_tables([block for block in blocks if block is not None])


def _of_size(blocks: Iterator[pa.Table | None], rows: int) -> Iterator[pa.Table | None]:
    """Combine small blocks, because each block is joined with all rows of a right table."""
    waiting: list[pa.Table] = []
    is_empty = True
    for block in blocks:
        if block is None:
            yield None
            continue
        waiting.append(block)
        if sum(one.num_rows for one in waiting) >= rows // 2:
            is_empty = False
            yield pa.concat_tables(waiting)
            waiting = []
    if is_empty or any(one.num_rows for one in waiting):
        yield pa.concat_tables(waiting)
