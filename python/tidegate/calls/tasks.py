"""Divides calls over Parquet files into tasks.

Examples use `tg` for `tidegate`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    >>> quotes = pa.table({"ts": [8, 19, 29, 31], "sym": ["A", "B", "A", "A"], "bid": [9, 8, 7, 6]})
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import tidegate
from tidegate import _tidegate
from tidegate.calls import functions
from tidegate.calls.explain import JOINS, bound, of_index
from tidegate.calls.index import Index, with_names_of
from tidegate.calls.listed_windows import windows_table
from tidegate.types import Bytes, Streams

# Arguments that apply to a whole call, not to its tasks.
_OF_CALL = ("max_rows", "memory_limit", "lateness", "progress", "unit")


def tasks(
    function: Callable[..., Any],
    *inputs: Streams,
    target: Bytes = "1GB",
    scratch: str | os.PathLike[str] | None = None,
    **arguments: Any,  # noqa: ANN401 - as for the function
) -> tidegate.TaskPlan:
    """Divide a call over Parquet files into tasks that can run anywhere, in any order.

    The times in the file footers determine how the call is divided. Each task returns the part of
    the result that belongs to one time slice, and reads only the row groups that it needs for this
    slice. If the files are in time order, no rows are read until a task runs. Tasks can be pickled,
    so they can run in the processes of a cluster, a process pool or a scheduler. Together, the
    tasks return the rows of the call. Each pair, unmatched row and window is returned by exactly
    one task.

    Example:
        >>> import pyarrow.parquet as pq
        >>> pq.write_table(trades, "trades.parquet")
        >>> pq.write_table(quotes, "quotes.parquet")
        >>> plan = tg.tasks(
        ...     tg.interval_join, "trades.parquet", "quotes.parquet",
        ...     on="ts", by="sym", lower=-2, upper=0,
        ... )
        >>> len(plan.tasks), plan.tasks[0].rows
        (1, 7)
        >>> plan.tasks[0].run().read_all()["bid"].to_pylist()
        [9, 8, 7]

        Each process of a pool runs some of the tasks and writes their results:

        >>> import concurrent.futures, multiprocessing, pathlib
        >>> pathlib.Path("result").mkdir()
        >>> spawn = multiprocessing.get_context("spawn")
        >>> with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        ...     written = [pool.submit(task.write, "result") for task in plan.tasks]
        >>> pq.read_table("result").num_rows
        3

        If a join uses an index, each process that runs its tasks maps the index file:

        >>> tg.Index(quotes, on="ts", by="sym").save("quotes.index")
        >>> plan = tg.tasks(
        ...     tg.asof_join, "trades.parquet", tg.open_index("quotes.index"), on="ts", by="sym"
        ... )
        >>> plan.tasks[0].run().read_all()["bid"].to_pylist()
        [9, 8, 7]

        In an as-of join without a tolerance, a left row may match a right row in any earlier slice.
        Before the tasks can run, preparation steps find these rows and write them to `scratch`:

        >>> pathlib.Path("scratch").mkdir()
        >>> plan = tg.tasks(
        ...     tg.asof_join, "trades.parquet", "quotes.parquet", on="ts", by="sym",
        ...     target=300, scratch="scratch",
        ... )
        >>> [len(stage) for stage in plan.stages]
        [1, 1, 2]
        >>> for stage in plan.stages[:-1]:
        ...     for preparation in stage:
        ...         preparation.run()
        >>> [task.run().read_all()["bid"].to_pylist() for task in plan.tasks]
        [[9, 8], [7]]

    Args:
        function: `tidegate.interval_join`, `tidegate.asof_join`, `tidegate.band_join`,
            `tidegate.overlap_join`, `tidegate.window_join`, `tidegate.aggregate`,
            `tidegate.rolling`, or their `_batches` forms. A band join or window join needs a
            time-based window, and an interval join needs bounds that are the same for all rows. In
            an as-of join without a tolerance, `where` may read columns of only one side, and is
            also evaluated for rows that are far away in time. The task whose slice contains the
            first row of a session or of a row-based window returns the window, and also reads its
            rows in later slices. A window from a table belongs to the slice that contains its
            start.
        *inputs: The function's inputs. They must be Parquet files: paths, folders, patterns or
            URLs, or a pyarrow dataset. If the footers do not contain the earliest and latest times
            of each row group, `tasks` reads the time columns of the files. The right side of a join
            can also be an `Index` that `open_index` has opened. Each process that runs tasks then
            maps the index file. Only the left rows are divided, between row groups and in file
            order. Such a join accepts any bounds and needs no `scratch`, but cannot return
            unmatched right rows.
        target: The approximate number of uncompressed bytes that each task reads, as a number or a
            string such as "1GB".
        scratch: The folder to which preparation steps write files: an existing folder that all
            processes can access, or a folder URL. As-of joins without a tolerance, joins with
            `prevailing`, aggregations with `session` or `empty`, and row-based windows need this
            folder if they are divided into more than one task. Other plans need it if many tasks
            would have to read the same row groups. This happens if rows are not in time order, or
            if a few rows in an overlap join are much longer than the others. Preparation steps then
            sort the rows in these row groups. Each plan has its own subfolders, which you can
            delete once the tasks have run.
        **arguments: The function's other arguments. `threads` is the number of worker threads per
            task, 1 by default. `max_rows`, `memory_limit`, `lateness`, `progress` and `unit` do
            not apply to tasks.

    Returns:
        The plan. Its `tasks` are ordered by time, with two exceptions: the tasks for long rows in
        an overlap join come last, and tasks of a join with an index follow the order of the left
        rows. `schema` describes the result columns, and `explain()` shows how much is sorted and
        how much the tasks read. `stages` lists the objects to run: any preparation steps, followed
        by the tasks. All objects in a stage can run in parallel, and the next stage can begin when
        all of them have finished. A preparation step that runs again writes the same files. Each
        task returns its rows in the same order as the call.

    Raises:
        TypeError: `function` is not one of the functions above, or does not accept the given
            arguments.
        TidegateError: An input does not consist of Parquet files, matching rows may be any distance
            apart in time, or `scratch` is missing.
        SchemaError: A column is missing or has an unsuitable type, or a time is null.
    """
    # Imported late, because these import pyarrow.
    from tidegate.calls.inputs import elsewhere, listed, names  # noqa: PLC0415
    from tidegate.slices import aggregation, indexed, join, rolling  # noqa: PLC0415

    folder = None if scratch is None else os.fspath(scratch)
    size = _tidegate.byte_count("target", target)
    given = bound(function, inputs, arguments) if function in FUNCTIONS else None
    if given is None or size is None:
        raise _refused(function)
    for name in _OF_CALL:
        if given.pop(name, None) not in (None, False):
            message = f"tasks: {name} applies to a whole call, not to its tasks; omit it, "
            message += "and set target to the number of bytes for each task to read"
            raise TypeError(message)
    if given["threads"] is None:
        given["threads"] = 1
    if function in JOINS:
        if isinstance(given["right"], Index):
            given |= with_names_of(JOINS[function], given["right"], given)
        left, right = given.pop("left"), given.pop("right")
        query = JOINS[function](**given)
        if isinstance(right, Index):
            return elsewhere(lambda: indexed.planned(query, left, right, size, of_index))
        return elsewhere(lambda: join.planned(query, left, right, size, folder))
    if function in ROLLING:
        table = given.pop("table")
        of_rolling = _tidegate.RollingQuery(**given)
        return elsewhere(lambda: rolling.planned(of_rolling, table, size, folder))
    given["windows"] = windows_table(given["windows"])
    streams = listed(given.pop("streams"))
    of_aggregation = _tidegate.AggregationQuery(**given)
    every = names(len(streams))
    return elsewhere(lambda: aggregation.planned(of_aggregation, streams, every, size, folder))


ROLLING = {functions.rolling, functions.rolling_batches}
FUNCTIONS: set[Callable[..., Any]] = {
    *JOINS,
    *ROLLING,
    functions.aggregate,
    functions.aggregate_batches,
}


def _refused(function: object) -> TypeError:
    known = ", ".join(sorted(inspect.unwrap(one).__name__ for one in FUNCTIONS))
    message = f"function: expected one of {known}, got {function!r:.80}"
    return TypeError(message)
