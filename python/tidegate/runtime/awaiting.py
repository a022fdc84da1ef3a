"""Operators and sources in asyncio."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tidegate._tidegate import MemoryLimitError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow as pa

# The maximum time that a thread waits for results, in seconds. At exit, Python waits for the
# thread.
_PATIENCE = 0.5

# The interval between two attempts to push into a full source, in seconds.
_ROOM = 0.001


async def batches(operator: Any) -> AsyncIterator[pa.RecordBatch]:  # noqa: ANN401 - of Rust
    """Yield batches until all sources are closed, without blocking the event loop.

    A separate thread does the work and waits for sources. The thread leaves the results in the
    operator, so that nothing is lost if the caller is cancelled. The threads of the event loop's
    own executor remain free.
    """
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-aio")
    try:
        while True:
            is_ready = await loop.run_in_executor(thread, operator._is_ready_within, _PATIENCE)  # noqa: SLF001
            if is_ready is False:
                return
            batch = operator.poll() if is_ready else None
            if batch is not None:
                yield batch
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


async def push(source: Any, data: Any, extra: str, unit: str | None) -> None:  # noqa: ANN401 - of Rust, any rows
    """Push rows, waiting until the memory limit leaves enough room for them.

    The rows are pushed between two waits, so a cancelled caller has pushed either all of them or
    none.
    """
    while True:
        try:
            source.push(data, extra=extra, unit=unit, block=False)
        except MemoryLimitError:
            if not source._is_full():  # noqa: SLF001 - of Rust
                raise
        else:
            return
        await asyncio.sleep(_ROOM)
