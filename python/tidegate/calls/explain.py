"""Explains what a call would do, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.bounded.limits import Limits
from tidegate.calls import computed, features, functions, merges
from tidegate.calls.arguments import of_unknown
from tidegate.calls.index import with_names_of
from tidegate.calls.joins import planned
from tidegate.calls.listed_windows import windows_table
from tidegate.types import Streams, Table

if TYPE_CHECKING:
    from tidegate.calls.ways import AnyQuery
    from tidegate.io.open_tables import OpenTable

Planner = Callable[..., str]


def _of_operator(operator: Callable[..., _tidegate.Operator]) -> Callable[..., str]:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the class
        with operator(*inputs, **arguments) as made:
            return made.explain()

    return explain


def _of_join(function: Callable[..., Any], making: Callable[..., _tidegate.JoinQuery]) -> Planner:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
        given = bound(function, inputs, arguments)
        if isinstance(given["right"], _tidegate.Index):
            given |= with_names_of(making, given["right"], given)
        left, right = given.pop("left"), given.pop("right")
        in_batches = function.__name__.endswith("_batches")
        del given["progress"]
        memory_limit, lateness = given.pop("memory_limit"), given.pop("lateness")
        query, left, right = planned(making, given, left, right, memory_limit)
        limits = Limits.of(memory_limit, lateness, in_batches=in_batches)
        return of_join(query, left, right, limits, in_batches=in_batches)

    return explain


def of_join(
    query: _tidegate.JoinQuery,
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    limits: Limits | None,
    *,
    in_batches: bool,
) -> str:
    """Explain a join; if it returns batches, also explain how files are read."""
    # Imported late, because these import pyarrow.
    from tidegate.calls import inputs, ways  # noqa: PLC0415

    sides = inputs.schema_of("left", left), inputs.schema_of("right", right)
    with inputs.advising(sides):
        plan = query.plan(*map(inputs.columns_of, sides))
    lines = [plan.explanation.rstrip("\n")]
    if isinstance(right, _tidegate.Index):
        lines.append(of_index(query, plan, right))
    tables = [side for side in sides if isinstance(side, inputs.OpenTable)]
    are_files = in_batches and len(tables) == len(sides)
    if limits is not None:
        times, late = ways.times_of(query, plan), limits.of_sides()
        ways.check_lateness(plan, times, late)
        lines.append(OF_JOIN.format(limits.memory))
        if are_files:
            lines.append(ways.in_time_order(tables, ways.SIDES, times, late))
    elif are_files:
        pair = tables[0], tables[1]
        lines.append(str(ways.of_join(query, plan, pair, reads_times=False)))
    lines += _of_csv(tables)
    return "\n".join(lines)


def of_index(query: _tidegate.JoinQuery, plan: _tidegate.JoinPlan, index: _tidegate.Index) -> str:
    """Explain how a join uses an index."""
    by_rows = query.function == "window_join" and (
        plan.time is None or plan.time[1] == (None, None) or query.arguments["algorithm"]
    )
    if query.function == "band_join" or by_rows or plan._has_row_bounds:  # noqa: SLF001 - internal to the package
        return f"  index      all {index.rows:,} rows are read, since this join cannot search them"
    most = index._most_searched  # noqa: SLF001 - internal to the package
    return (
        f"  index      {index.rows:,} rows: up to {most:,} left rows are looked up one by one; "
        "with more, all rows are visited in time order"
    )


def _of_aggregation(function: Callable[..., Any]) -> Planner:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
        given = bound(function, inputs, arguments)
        is_rolling = "table" in given
        if not is_rolling:
            given["windows"] = windows_table(given["windows"])
        streams = [given.pop("table")] if is_rolling else given.pop("streams")
        in_batches = function.__name__.endswith("_batches")
        del given["progress"]
        memory_limit, lateness = given.pop("memory_limit"), given.pop("lateness")
        name = "table" if is_rolling else "stream"
        streams, more = computed.with_streams(streams, given, memory_limit, name)
        streams = merges.with_times(streams, given["on"], given.pop("unit"), memory_limit)
        limits = Limits.of(memory_limit, lateness, in_batches=in_batches)
        making = _tidegate.RollingQuery if is_rolling else _tidegate.AggregationQuery
        query: AnyQuery = making(**given)
        if isinstance(query, _tidegate.RollingQuery):
            query = computed.without(query, given, (streams,), more)
        return of_aggregation(query, streams, limits, in_batches=in_batches)

    return explain


def of_aggregation(
    query: AnyQuery,
    streams: Any,  # noqa: ANN401 - any streams
    limits: Limits | None,
    *,
    in_batches: bool,
) -> str:
    """Explain an aggregation; if it returns batches, also explain how files are read."""
    # Imported late, because these import pyarrow.
    from tidegate.calls import inputs, ways  # noqa: PLC0415

    every = inputs.listed(streams)
    names = ways.names_of(query, len(every))
    opened = [inputs.schema_of(name, one) for name, one in zip(names, every, strict=True)]
    with inputs.advising(opened):
        plan = query.plan([inputs.columns_of(stream) for stream in opened])
    lines = [plan.explanation.rstrip("\n")]
    tables = [stream for stream in opened if isinstance(stream, inputs.OpenTable)]
    are_files = in_batches and len(tables) == len(opened)
    if limits is not None:
        times, late = [query.on] * len(opened), [limits.lateness] * len(opened)
        ways.check_lateness(plan, times, late)
        lines.append(OF_AGGREGATION.format(limits.memory))
        if are_files:
            lines.append(ways.in_time_order(tables, names, times, late))
    elif are_files:
        lines.append(str(ways.of_aggregation(query, plan, tables, reads_times=False)))
    lines += _of_csv(tables)
    return "\n".join(lines)


def _of_csv(tables: Sequence[OpenTable]) -> list[str]:
    """Explain how the columns of CSV files are read."""
    from tidegate.io.open_tables import csv_columns  # noqa: PLC0415 - imports pyarrow

    return [f"  csv        {line}" for table in tables for line in csv_columns(table, table.name)]


OF_JOIN = (
    "  limit      {} bytes: rows in time order, "
    "one slice of left rows at a time with the right rows within its reach; "
    "an input that is not known to be in order is sorted in temporary files"
)
OF_AGGREGATION = (
    "  limit      {} bytes: rows in time order, "
    "so that each window is dropped once it is complete; "
    "a stream that is not known to be in order is sorted in temporary files"
)


def bound(
    function: Callable[..., Any], inputs: tuple[Any, ...], arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the names and values of all arguments of a call, including defaults."""
    try:
        call = inspect.signature(function).bind(*inputs, **arguments)
    except TypeError:
        error = of_unknown(function, inputs, arguments)
        if error is None:
            raise
    else:
        call.apply_defaults()
        return call.arguments
    raise error


def _of_merge(function: Callable[..., Any]) -> Planner:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
        # Imported late, because they import pyarrow.
        from tidegate.calls.inputs import STREAMED, listed, streams_of_files  # noqa: PLC0415
        from tidegate.io.open_tables import is_path  # noqa: PLC0415

        given = bound(function, inputs, arguments)
        del given["progress"]
        streams = given.pop("streams")
        streams = merges.with_times(streams, given["on"], given.pop("unit"), given["memory_limit"])
        if is_path(streams):
            every = streams_of_files(streams, STREAMED)
        else:
            every = [streams] if hasattr(streams, "__arrow_c_schema__") else listed(streams)
        if not every:
            message = "streams: expected at least one stream"
            raise _tidegate.TidegateError(message)
        return _of_operator(functions.Merge)(every[0], sources=len(every), **given)

    return explain


def _of_features(function: Callable[..., Any], join: Callable[..., Any]) -> Planner:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
        # Imported late, because these import pyarrow.
        from tidegate.calls import feature_joins  # noqa: PLC0415
        from tidegate.calls.inputs import schema_of  # noqa: PLC0415

        given = bound(function, inputs, arguments)
        if given["unit"] is not None:
            given = feature_joins.with_times(given)
        labels, views = schema_of("labels", given.pop("labels")), given.pop("views")
        call = feature_joins.Call(given.pop("on"), given.pop("by"), given.pop("names"))
        lines = []
        for step in feature_joins.planned(labels, views, call):
            lines.append(f"{step.view}:")
            planner = _of_join(join, _tidegate.interval_join_query)
            with feature_joins.Named(step.view):
                lines.append(planner(labels, step.table, **step.arguments, **given))
        return "\n".join(lines)

    return explain


JOINS: dict[Callable[..., Any], Callable[..., _tidegate.JoinQuery]] = {
    functions.asof_join: _tidegate.asof_join_query,
    functions.asof_join_batches: _tidegate.asof_join_query,
    functions.band_join: _tidegate.band_join_query,
    functions.band_join_batches: _tidegate.band_join_query,
    functions.interval_join: _tidegate.interval_join_query,
    functions.interval_join_batches: _tidegate.interval_join_query,
    functions.overlap_join: _tidegate.overlap_join_query,
    functions.overlap_join_batches: _tidegate.overlap_join_query,
    functions.window_join: _tidegate.window_join_query,
    functions.window_join_batches: _tidegate.window_join_query,
}
"""The function that builds the query of each join."""

PLANNERS: dict[object, Planner] = {
    functions.aggregate: _of_aggregation(functions.aggregate),
    functions.aggregate_batches: _of_aggregation(functions.aggregate_batches),
    **{function: _of_join(function, making) for function, making in JOINS.items()},
    features.features: _of_features(features.features, functions.interval_join),
    features.features_batches: _of_features(
        features.features_batches, functions.interval_join_batches
    ),
    functions.rolling: _of_aggregation(functions.rolling),
    functions.rolling_batches: _of_aggregation(functions.rolling_batches),
    functions.merge: _of_merge(functions.merge),
    functions.merge_batches: _of_merge(functions.merge_batches),
    _tidegate.Aggregate: _of_operator(functions.Aggregate),
    _tidegate.AsofJoin: _of_operator(functions.AsofJoin),
    _tidegate.BandJoin: _of_operator(functions.BandJoin),
    _tidegate.IntervalJoin: _of_operator(functions.IntervalJoin),
    _tidegate.Merge: _of_operator(functions.Merge),
    _tidegate.OverlapJoin: _of_operator(functions.OverlapJoin),
    _tidegate.Rolling: _of_operator(functions.Rolling),
    _tidegate.WindowJoin: _of_operator(functions.WindowJoin),
}


def explain(function: Callable[..., Any], *inputs: Streams, **arguments: object) -> str:
    """Explain how a call would run: its algorithm, index, threads and memory.

    Only the schemas of the inputs are read. If a reader does not expose its schema, it is consumed.

    Args:
        function: `tidegate.interval_join`, `tidegate.asof_join`, `tidegate.band_join`,
            `tidegate.overlap_join`, `tidegate.window_join`, their `_batches` forms,
            `tidegate.IntervalJoin`, `tidegate.AsofJoin`, `tidegate.BandJoin`,
            `tidegate.OverlapJoin`, `tidegate.WindowJoin`, `tidegate.aggregate`,
            `tidegate.aggregate_batches`, `tidegate.Aggregate`, `tidegate.rolling`,
            `tidegate.rolling_batches`, `tidegate.Rolling`, `tidegate.merge`,
            `tidegate.merge_batches`, `tidegate.Merge`, `tidegate.join_all` or
            `tidegate.join_all_batches`.
        *inputs: The inputs of the function: the left and the right input of a join, the first table
            and the steps of `join_all`, or the streams of an aggregation or a merge. For a class,
            the inputs may also be schemas.
        **arguments: The other arguments of the function.

    Returns:
        A description that is a few lines long. If a function whose name ends in `_batches` reads
        files, one line shows whether the files are read in full or slice by slice. With a
        `memory_limit`, this line also shows how each input's rows are brought into time order.
        This requires reading the statistics in Parquet files.

    Raises:
        TypeError: `function` is not one of the functions and classes above, or does not accept such
            inputs.
        TidegateError: The call would fail because of its arguments or the schemas.

    Example:
        >>> import pyarrow as pa, tidegate as tg
        >>> table = pa.table({"ts": [1, 2], "k": [1, 1]})
        >>> plan = tg.explain(
        ...     tg.interval_join, table, table, on="ts", by="k", lower=0, upper=1, threads=2
        ... )
        >>> print(plan.splitlines()[1])
          time       right.ts - left.ts in [0, 1] integer
    """
    if not callable(function):
        kind_given = f"{type(function).__module__}.{type(function).__name__}"
        msg = f"function: expected a function or a class, got {kind_given}; write its name and its "
        msg += (
            "arguments, as in tidegate.explain(tidegate.interval_join, left, right, on='ts', ...)"
        )
        raise TypeError(msg)
    kind = inspect.unwrap(function) if isinstance(function, type) else function
    planner = PLANNERS.get(kind)
    if planner is None:
        names = ", ".join(getattr(known, "__name__", str(known)) for known in PLANNERS)
        msg = f"function: expected one of {names}, got {function!r}"
        raise TypeError(msg)
    return planner(*inputs, **arguments)
