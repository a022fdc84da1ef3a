"""Joins three or more tables, one step after the other.

Examples use `tg` for `tidegate`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    >>> quotes = pa.table({"ts": [8, 19, 29, 31], "sym": ["A", "B", "A", "A"], "bid": [9, 8, 7, 6]})
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from tidegate import _tidegate
from tidegate.calls.arguments import check_collected, told
from tidegate.calls.distinct import check_streams
from tidegate.calls.explain import JOINS, PLANNERS, bound
from tidegate.deferred import Deferred
from tidegate.types import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidegate.calls.steps import Steps
else:
    pa = Deferred("pyarrow")

# Arguments that apply to all steps together, or to inputs that are not read in full.
_OF_CALL = ("threads", "max_rows", "memory_limit", "lateness", "progress")


@final
class Step:
    """One of the joins in `join_all`, with its right table and its arguments.

    Example:
        >>> tg.Step(tg.asof_join, quotes, on="ts", by="sym")
        Step(asof_join, on='ts', by='sym')

    Args:
        function: `tidegate.interval_join`, `tidegate.asof_join`, `tidegate.band_join`,
            `tidegate.overlap_join` or `tidegate.window_join`.
        right: The right table: any input that the function accepts, except an index.
        **arguments: The function's arguments, except `threads`, `max_rows`, `memory_limit`,
            `lateness`, `progress` and `unit`. The left columns are those of the previous step's
            result. Keys and times must be columns, not expressions.

    Raises:
        TypeError: `function` is not one of the functions above, or does not accept the given
            arguments.
        TidegateError: An argument has an invalid value.
    """

    __slots__ = ("_given", "_query", "_right", "function")

    def __init__(
        self,
        function: Callable[..., pa.Table],
        right: Table,
        **arguments: Any,  # noqa: ANN401 - as for the function
    ) -> None:
        """Check the arguments."""
        check_collected(Step, (function, right), {})
        if function not in FUNCTIONS:
            known = ", ".join(sorted(inspect.unwrap(one).__name__ for one in FUNCTIONS))
            message = f"function: expected one of {known}, got {function!r:.80}"
            raise TypeError(message)
        if isinstance(right, _tidegate.Index):
            message = "right: a step looks rows up in its right table, but got an index; "
            message += "give the table itself"
            raise TypeError(message)
        given = bound(function, (None, right), arguments)
        for name in _OF_CALL:
            if given.pop(name, None) not in (None, False):
                message = f"{name}: this applies to all steps together; "
                known_here = name in ("threads", "max_rows")
                message += f"give {name} to join_all" if known_here else "leave it out"
                raise TypeError(message)
        if given.pop("unit") is not None:
            message = "unit: a step compares the times of tables as they are; convert the times to "
            message += "timestamps beforehand"
            raise TypeError(message)
        del given["left"], given["right"]
        self.function = function
        self._right = right
        self._given = arguments
        self._query = JOINS[function](**given)

    def __repr__(self) -> str:
        """Return the function and the arguments, without the table."""
        arguments = [f"{name}={value!r}" for name, value in self._given.items()]
        name = inspect.unwrap(self.function).__name__
        return f"Step({', '.join([name, *arguments])})"

    def right_and_query(self) -> tuple[Table, _tidegate.JoinQuery]:
        """Return the right table and the native query.

        Example:
            >>> step = tg.Step(tg.asof_join, quotes, on="ts", by="sym")
            >>> step.right_and_query()[1].function
            'asof_join'
        """
        return self._right, self._query


FUNCTIONS = {one for one in JOINS if not inspect.unwrap(one).__name__.endswith("_batches")}


@told
def join_all(
    left: Table, *steps: Step, threads: int | None = None, max_rows: int | None = None
) -> pa.Table:
    """Join a table with several others, one step after the other.

    Each step joins the result of the previous step with another table. The result is the same as
    that of nested calls: the same rows, columns and values in the same order. Nested calls build
    each intermediate result in full, even if a later step drops most of its rows. `join_all`
    instead removes rows that cannot be in the result before any step runs. It then joins row
    numbers, block by block, and finally looks up the columns.

    Example:
        Each trade with the quotes in the five time units before it, but only if there was news
        about the quote in the two time units after it:

        >>> news = pa.table({"ts": [9, 10, 30], "sym": ["A", "B", "A"], "text": ["x", "y", "z"]})
        >>> found = tg.join_all(
        ...     trades,
        ...     tg.Step(tg.interval_join, quotes, on="ts", by="sym", lower=-5, upper=0),
        ...     tg.Step(tg.interval_join, news, on=("ts_right", "ts"), by="sym", lower=0, upper=2,
        ...             columns=["ts", "bid", "text"]),
        ... )
        >>> found.to_pylist()
        [{'ts': 10, 'bid': 9, 'text': 'x'}, {'ts': 30, 'bid': 7, 'text': 'z'}]

    Args:
        left: The first table: any input that joins accept, except an index.
        *steps: The steps, in order. A step can be of any kind, and can have any `how` and `aggs`. A
            step with `how="right"` or `how="full"`, or with a row-based window, depends on all rows
            of the previous result. In that case, no rows are removed beforehand, and this result is
            built in full, as row numbers and compared columns.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.

    Returns:
        The result of the last step. `columns` of a step selects the columns that the next step can
        use, or the columns of the result.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type. The message
            contains the number of the step, counted from 1.
        MemoryLimitError: The result has more than `max_rows` rows.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.
    """
    # Imported late, because these import pyarrow.
    import pyarrow as pa  # noqa: PLC0415

    from tidegate.bounded.results import check_rows  # noqa: PLC0415

    planned, tables = _planned("join_all", left, steps, threads, max_rows)
    found, rows = [], 0
    for block in planned.run(tables, threads):
        if block is not None:
            rows += block.num_rows
            check_rows(rows, max_rows)
            found.append(block)
    return pa.concat_tables(found)


@told
def join_all_batches(
    left: Table, *steps: Step, threads: int | None = None, max_rows: int | None = None
) -> _tidegate.BatchReader[Any]:
    """Join a table with several others, and return the result in record batches.

    This function is like `join_all`, but the result can be larger than memory. The batches are
    built while they are read.

    Example:
        >>> with tg.join_all_batches(
        ...     trades, tg.Step(tg.asof_join, quotes, on="ts", by="sym", columns=["ts", "bid"])
        ... ) as reader:
        ...     [row for batch in reader for row in batch.to_pylist()]
        [{'ts': 10, 'bid': 9}, {'ts': 20, 'bid': 8}, {'ts': 30, 'bid': 7}]

    Args:
        left: The first table: any input that joins accept, except an index.
        *steps: The steps, in order.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.

    Returns:
        A reader, which is an iterator of record batches and an Arrow stream. Dictionary columns
        have 32-bit indices.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.
    """
    # Imported late, because it imports pyarrow.
    from tidegate.bounded.results import Result  # noqa: PLC0415

    planned, tables = _planned("join_all_batches", left, steps, threads, max_rows)

    def batches() -> Iterator[pa.RecordBatch | None]:
        for block in planned.run(tables, threads):
            yield None
            yield from () if block is None else block.to_batches()

    def stats() -> dict[str, Any]:
        return {"left_rows": tables[0].num_rows}

    result = Result(planned.schema, batches(), stats, max_rows)
    return _tidegate.reader_of(result, "join_all_batches")


def _planned(
    name: str, left: Table, steps: tuple[Step, ...], threads: int | None, max_rows: int | None
) -> tuple[Steps, list[pa.Table]]:
    """Check the arguments, read all tables, and plan the steps."""
    # Imported late, because it imports pyarrow.
    from tidegate.calls.steps import Steps, opened  # noqa: PLC0415

    rights, queries = _sides(name, left, steps)
    every = {"left": left, **{f"step {at}: right": one for at, one in enumerate(rights, 1)}}
    # The native query checks these arguments.
    queries[-1].replace(threads=threads, max_rows=max_rows)
    check_streams([*every.values()], [*every])
    inputs = {one: opened(one, given) for one, given in every.items()}
    planned = Steps([one.schema for one in inputs.values()], queries)
    return planned, planned.read(inputs)


def _sides(
    name: str, left: Table, steps: tuple[Step, ...]
) -> tuple[list[Table], list[_tidegate.JoinQuery]]:
    """Check the arguments of a call, and return the right tables and the queries."""
    for at, step in enumerate(steps, 1):
        if not isinstance(step, Step):
            message = f"{name}: step {at}: expected a tidegate.Step, got {type(step).__name__}; "
            message += "write tidegate.Step(tidegate.interval_join, right, on=...)"
            raise TypeError(message)
    if not steps:
        message = f"{name}: expected at least one step, as in {name}(left, tidegate.Step(...))"
        raise TypeError(message)
    pairs = [step.right_and_query() for step in steps]
    rights = [right for right, _ in pairs]
    if isinstance(left, _tidegate.Index):
        message = "left: expected a table, got an index; give the table itself"
        raise TypeError(message)
    return rights, [query for _, query in pairs]


def _explain(
    left: Table, *steps: Step, threads: int | None = None, max_rows: int | None = None
) -> str:
    del threads, max_rows
    # Imported late, because these import pyarrow.
    from tidegate.calls.inputs import read_schema  # noqa: PLC0415
    from tidegate.calls.steps import Steps  # noqa: PLC0415

    rights, queries = _sides("join_all", left, steps)
    schemas = [read_schema("left", left), *(read_schema("right", one) for one in rights)]
    return Steps(schemas, queries).explain()


PLANNERS |= dict.fromkeys((join_all, join_all_batches), _explain)
