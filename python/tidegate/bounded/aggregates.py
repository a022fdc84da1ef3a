"""Aggregations of streams in time order: a window's state goes once the window is over."""

from contextlib import ExitStack, closing
from typing import Any

import pyarrow as pa

import tidegate
from tidegate import _tidegate
from tidegate.bounded.ordered import LOWEST, PLACE, Ordered, given, typed
from tidegate.bounded.results import Result
from tidegate.bounded.shares import BY_ITSELF, LARGE, Shares
from tidegate.bounded.sorting import Steps
from tidegate.io.given import of_one_type


def aggregated(
    _batches: str,
    inputs: tuple[object, ...],
    limit: int,
    lateness: object,
    arguments: dict[str, Any],
) -> Result:
    """Begin an aggregation within a memory limit.

    Args:
        inputs: The streams.
        limit: The bytes that may be taken; `BY_ITSELF` for no bound.
        lateness: How far rows may be out of time order; None if that is not known.
        arguments: The other arguments of `aggregate`.

    Raises:
        SchemaError: A column of one stream has another type in another stream.
    """
    is_bound = limit < BY_ITSELF
    most_bytes = limit if is_bound else LARGE
    shares = Shares(most_bytes)
    arguments = {name: value for name, value in arguments.items() if value is not None}
    streams = [given(one, _name(at, len(inputs))) for at, one in enumerate(inputs)]
    tables = of_one_type([stream.table for stream in streams])
    for stream, table in zip(streams, tables, strict=True):
        stream.table = table
    schemas = [stream.table.schema for stream in streams]
    plan = _tidegate.plan_aggregate(schemas, **arguments)
    schemas = plan._inputs  # noqa: SLF001 - the package's own
    for stream, schema in zip(streams, schemas, strict=True):
        stream.table = typed(stream.table, schema)
    reads = [
        pa.schema([schema.field(name) for name in columns])
        for schema, columns in zip(schemas, plan.columns, strict=True)
    ]
    for stream, schema in zip(streams, reads, strict=True):
        _check_same(stream.name, schema, reads[0])
    max_rows = arguments.pop("max_rows", None)
    on = arguments["on"]
    files = ExitStack()
    # Told before rows are read: what an operator refuses.
    operator = _tidegate.Aggregate(
        reads[0],
        **arguments,
        sources=len(streams),
        memory_limit=shares.state if is_bound else None,
    )
    share = Shares(most_bytes, streams=len(streams))
    ordered = [Ordered(stream, reads[0].names, on, 1, lateness, share, files) for stream in streams]
    threads = arguments.get("threads") or _tidegate.default_threads()
    most = shares.rows_made(plan.schema, threads)

    def stats() -> dict[str, Any]:
        return {"rows_in": sum(one.rows for one in ordered), "threads": threads}

    return Result(
        plan.schema, _run(operator, ordered, files, most, shares.rows_pushed), stats, max_rows
    )


def _name(at: int, streams: int) -> str:
    return f"streams[{at}]" if streams > 1 else "streams"


def _check_same(name: str, schema: pa.Schema, first: pa.Schema) -> None:
    for field in schema:
        kind = first.field(field.name).type
        if field.type != kind:
            message = f"{name}: column `{field.name}` is {field.type}, but {kind} in streams[0]; "
            message += "with memory_limit, cast it to one type in all streams"
            raise tidegate.SchemaError(message)


def _run(
    operator: _tidegate.Aggregate, ordered: list[Ordered], files: ExitStack, most: int, pushed: int
) -> Steps:
    """Feed the stream that is behind, and take what is final."""
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
    """The rows of a stream, few at a time."""
    for batch in stream.batches():
        yield None
        if batch is not None:
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
