"""What a call would do, without doing it."""

import inspect
import os
from collections.abc import Callable
from typing import Any

from tidegate import _tidegate
from tidegate.types import Streams, Table


def _of_operator(operator: Callable[..., _tidegate.Operator]) -> Callable[..., str]:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the class
        with operator(*inputs, **arguments) as made:
            return made.explain()

    return explain


def _of_plan(
    plan: Callable[..., _tidegate.JoinPlan | _tidegate.AggregationPlan],
) -> Callable[..., str]:
    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
        return plan(*inputs, **arguments).explanation

    return explain


def _of_batches(
    plan: Callable[..., _tidegate.JoinPlan | _tidegate.AggregationPlan],
) -> Callable[..., str]:
    explain_plan = _of_plan(plan)
    batches = f"{plan.__name__.removeprefix('plan_')}_batches"

    def explain(*inputs: Table, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
        # Here, since it imports pyarrow.
        from tidegate.bounded.choosing import explained  # noqa: PLC0415

        told = explain_plan(*inputs, **arguments)
        return told + explained(batches, inputs, arguments)

    return explain


def _of_merge(streams: Any, **arguments: Any) -> str:  # noqa: ANN401 - as for the function
    # Here, since it imports pyarrow.
    from tidegate.io.given import STREAMED, is_table, open_files  # noqa: PLC0415

    if isinstance(streams, str | os.PathLike):
        streams = open_files(streams, "streams", STREAMED)
    listed = [streams] if is_table(streams) or _has_schema(streams) else [*streams]
    if not listed:
        message = "streams: expected at least one stream"
        raise _tidegate.TidegateError(message)
    return _of_operator(_tidegate.Merge)(listed[0], sources=len(listed), **arguments)


def _has_schema(given: object) -> bool:
    return hasattr(given, "__arrow_c_schema__") or hasattr(given, "__arrow_c_stream__")


_PLANNERS: dict[object, Callable[..., str]] = {
    _tidegate.aggregate: _of_plan(_tidegate.plan_aggregate),
    _tidegate.aggregate_batches: _of_batches(_tidegate.plan_aggregate),
    _tidegate.asof_join: _of_plan(_tidegate.plan_asof_join),
    _tidegate.asof_join_batches: _of_batches(_tidegate.plan_asof_join),
    _tidegate.AsofJoin: _of_operator(_tidegate.AsofJoin),
    _tidegate.BandJoin: _of_operator(_tidegate.BandJoin),
    _tidegate.band_join: _of_plan(_tidegate.plan_band_join),
    _tidegate.band_join_batches: _of_batches(_tidegate.plan_band_join),
    _tidegate.interval_join: _of_plan(_tidegate.plan_interval_join),
    _tidegate.interval_join_batches: _of_batches(_tidegate.plan_interval_join),
    _tidegate.IntervalJoin: _of_operator(_tidegate.IntervalJoin),
    _tidegate.overlap_join: _of_plan(_tidegate.plan_overlap_join),
    _tidegate.overlap_join_batches: _of_batches(_tidegate.plan_overlap_join),
    _tidegate.WindowJoin: _of_operator(_tidegate.WindowJoin),
    _tidegate.window_join: _of_plan(_tidegate.plan_window_join),
    _tidegate.window_join_batches: _of_batches(_tidegate.plan_window_join),
    _tidegate.Aggregate: _of_operator(_tidegate.Aggregate),
    _tidegate.Merge: _of_operator(_tidegate.Merge),
    _tidegate.merge: _of_merge,
    _tidegate.merge_batches: _of_merge,
}


def explain(function: Callable[..., Any], *inputs: Streams, **arguments: object) -> str:
    """Say what a call would do: the algorithm and why, the index, the threads, the memory bound.

    Only the schemas of the inputs are read. A reader that does not tell its schema otherwise is
    consumed by asking for it.

    Args:
        function: `tidegate.interval_join`, `tidegate.asof_join`, `tidegate.band_join`,
            `tidegate.overlap_join`, `tidegate.window_join`, these with `_batches`,
            `tidegate.IntervalJoin`, `tidegate.AsofJoin`, `tidegate.BandJoin`,
            `tidegate.WindowJoin`, `tidegate.aggregate`, `tidegate.aggregate_batches`,
            `tidegate.Aggregate`, `tidegate.merge`, `tidegate.merge_batches` or `tidegate.Merge`.
        *inputs: The inputs of the function: the left and the right input of a join, or the streams
            of an aggregation or a merge. For a class, schemas or data that has them.
        **arguments: The other arguments of the function.

    Returns:
        A few lines of text. For functions that end in `_batches`, of files, a line says how the
        inputs are read: whole, or slice by slice; with a `memory_limit`, how the rows of each get
        into time order. For that, the statistics of Parquet files are read.

    Raises:
        TypeError: If `function` is another function, or does not take such inputs.
        TidegateError: If the function would raise because of its arguments or the schemas.

    Example:
        >>> import pyarrow as pa, tidegate as tg
        >>> table = pa.table({"ts": [1, 2], "k": [1, 1]})
        >>> plan = tg.explain(
        ...     tg.interval_join, table, table, on="ts", by="k", lower=0, upper=1, threads=2
        ... )
        >>> print(plan.splitlines()[1])
          time       right.ts - left.ts in [0, 1] integer
    """
    planner = _PLANNERS.get(inspect.unwrap(function))
    if planner is None:
        names = ", ".join(getattr(known, "__name__", str(known)) for known in _PLANNERS)
        msg = f"function: expected one of {names}, got {function!r}"
        raise TypeError(msg)
    return planner(*inputs, **arguments)
