"""Merges streams, including all steps from a call's arguments to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _tidegate
from tidegate.calls.distinct import check_streams
from tidegate.calls.progress import reporting

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.types import Bound, Bytes, Epoch, OperatorStats, Reports


def table(  # noqa: PLR0913, PLR0917 - the arguments of the call
    streams: Any,  # noqa: ANN401 - any streams
    on: str,
    lateness: Bound,
    threads: int | None,
    memory_limit: Bytes | None,
    progress: Reports,
    unit: Epoch | None,
) -> pa.Table:
    """Merge streams into one table."""
    streams = with_times(streams, on, unit, memory_limit)
    limit = _tidegate.byte_count("memory_limit", memory_limit)
    reports = reporting(progress, "merge")
    if reports is not None:
        half = None if limit is None else limit // 2
        return reports.table(
            batches(streams, on, lateness, threads, half, progress=False, unit=None), limit
        )
    if limit is None and are_arrow(streams):
        check_streams(streams)
        return _tidegate.merge(streams, on=on, lateness=lateness, threads=threads)
    # Imported late, because these import pyarrow.
    from tidegate.bounded import results  # noqa: PLC0415
    from tidegate.calls import inputs  # noqa: PLC0415

    if limit is not None:
        reader = batches(streams, on, lateness, threads, limit // 2, progress=False, unit=None)
        return results.table(reader, limit, "merge_batches")
    rows = inputs.read_streams(inputs.streams_of_files(streams, inputs.WHOLE))
    return _tidegate.merge(rows, on=on, lateness=lateness, threads=threads)


def batches(  # noqa: PLR0913, PLR0917 - the arguments of the call
    streams: Any,  # noqa: ANN401 - any streams
    on: str,
    lateness: Bound,
    threads: int | None,
    memory_limit: Bytes | None,
    progress: Reports,
    unit: Epoch | None,
) -> _tidegate.BatchReader[OperatorStats]:
    """Merge streams, batch by batch."""
    streams = with_times(streams, on, unit, memory_limit)
    reports = reporting(progress, "merge")
    if not are_arrow(streams):
        # Imported late, because it imports pyarrow.
        from tidegate.calls import inputs  # noqa: PLC0415

        opened = inputs.streams_of_files(streams, inputs.STREAMED)
        streams = [one if _tidegate.is_arrow(one) else one.batches() for one in opened]
    check_streams(streams)
    reader = _tidegate.merge_batches(
        streams, on=on, lateness=lateness, threads=threads, memory_limit=memory_limit
    )
    return reader if reports is None else reports.batches(reader)


def with_times(streams: Any, on: str, unit: object, memory_limit: object) -> Any:  # noqa: ANN401 - any streams
    """Return the streams with timestamps if `unit` is given."""
    if unit is None:
        return streams
    if memory_limit is not None:
        raise _tidegate.TidegateError(UNIT_OF_WHOLE)
    # Imported late, because these import pyarrow.
    from tidegate.calls import epochs, inputs  # noqa: PLC0415

    every = inputs.streams_of_files(streams, inputs.WHOLE)
    known = dict(zip(inputs.names(len(every)), every, strict=True))
    return epochs.converted(known, {name: [on] for name in known}, unit)


UNIT_OF_WHOLE = (
    "unit: inputs are read in full to convert their times, so memory_limit has no effect; leave "
    "memory_limit out, or write timestamps to the files"
)


def are_arrow(streams: Any) -> bool:  # noqa: ANN401 - any streams
    """Return whether native functions accept all streams without conversion."""
    if isinstance(streams, list | tuple):
        return all(map(_tidegate.is_arrow, streams))
    return _tidegate.is_arrow(streams)
