"""Aggregates streams in time order, and drops the state of a window once the window is complete."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import tidegate
from tidegate.bounded.ordered import LOWEST, PLACE, Ordered, typed
from tidegate.bounded.results import Result
from tidegate.bounded.shares import LARGE, Shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import AggregationPlan, AggregationQuery, Operator, RollingQuery
    from tidegate.bounded.limits import Limits
    from tidegate.bounded.sorting import Steps
    from tidegate.io.open_tables import OpenTable


def aggregated(
    query: AggregationQuery | RollingQuery,
    plan: AggregationPlan,
    inputs: Sequence[OpenTable],
    limits: Limits | None,
) -> Result:
    """Start an aggregation in time order.

    Args:
        query: The aggregation.
        plan: The aggregation's plan for these inputs.
        inputs: The streams.
        limits: The memory limit and the lateness; None for no limit.

    Raises:
        SchemaError: A column has different types in two streams.
    """
    most_bytes = LARGE if limits is None else limits.of_batches
    shares = Shares(most_bytes)
    schemas = plan._inputs  # noqa: SLF001 - internal to the package
    streams = [typed(one, schema) for one, schema in zip(inputs, schemas, strict=True)]
    reads = [
        pa.schema([schema.field(name) for name in columns])
        for schema, columns in zip(schemas, plan.columns, strict=True)
    ]
    for stream, schema in zip(streams, reads, strict=True):
        _check_same(stream.name, schema, reads[0])
    files = ExitStack()
    # Created before rows are read, so that invalid arguments are reported first.
    operator = query.operator(
        reads[0],
        sources=len(streams),
        memory_limit=None if limits is None else shares.state,
    )
    share = Shares(most_bytes, streams=len(streams))
    lateness = None if limits is None else limits.lateness
    ordered = [
        Ordered(stream, reads[0].names, query.on, 1, lateness, share, files) for stream in streams
    ]
    most = shares.rows_made(plan.schema, query.threads)

    def stats() -> dict[str, Any]:
        return {"rows_in": sum(one.rows for one in ordered), "threads": query.threads}

    return Result(
        plan.schema,
        _run(operator, ordered, files, most, shares.rows_pushed),
        stats,
        query.max_rows,
    )


def _check_same(name: str, schema: pa.Schema, first: pa.Schema) -> None:
    for field in schema:
        kind = first.field(field.name).type
        if field.type != kind:
            message = f"{name}: column `{field.name}` is {field.type}, but {kind} in streams[0]; "
            message += "with memory_limit, cast the column to the same type in all streams"
            raise tidegate.SchemaError(message)


def _run(
    operator: Operator[Any], ordered: list[Ordered], files: ExitStack, most: int, pushed: int
) -> Steps:
    """Push rows from the stream that is furthest behind, and yield final result rows."""
    with files, operator, ExitStack() as streams:
        rows = [streams.enter_context(closing(_pieces(one, pushed))) for one in ordered]
        behind = dict.fromkeys(range(len(rows)), LOWEST)
        while behind:
            number = min(behind, key=lambda at: (behind[at], at))
            try:
                piece = next(rows[number])
            except StopIteration:
                operator.sources[number].close()
                del behind[number]
            else:
                if piece is None:
                    yield None
                    continue
                plain = piece.select(ordered[number].plain.names)
                operator.sources[number].push(plain, block=False)
                behind[number] = piece.column(PLACE)[-1].as_py()
            while (found := operator.poll()) is not None:
                for start in range(0, found.num_rows, most):
                    yield found.slice(start, most)
            yield None


def _pieces(stream: Ordered, rows: int) -> Steps:
    """Yield a stream's rows in small pieces."""
    for batch in stream.batches():
        yield None
        if batch is not None:
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
