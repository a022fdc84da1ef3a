"""The batches of an operator for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow as pa

# Seconds that a thread waits for results: a loop that ends waits for its threads.
_PATIENCE = 0.5


async def batches(operator: Any) -> AsyncIterator[pa.RecordBatch]:  # noqa: ANN401 - of Rust
    """Yield batches until all sources are closed, while the event loop goes on.

    A thread of the loop's executor does the work and waits for sources. It leaves the results where
    they are, so that nothing is lost if the caller is cancelled meanwhile.
    """
    loop = asyncio.get_running_loop()
    while True:
        is_ready = await loop.run_in_executor(None, operator._is_ready_within, _PATIENCE)  # noqa: SLF001
        if is_ready is False:
            return
        batch = operator.poll() if is_ready else None
        if batch is not None:
            yield batch
