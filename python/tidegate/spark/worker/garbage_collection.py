"""Collections of garbage in a Python worker: they leave out what modules have made."""

from __future__ import annotations

import gc
import os
import sys

# The modules of this worker when its objects were last set aside.
_settled = 0


def settle() -> None:
    """Set what is imported aside from the collections of garbage that PySpark makes after tasks.

    A worker that is kept for later tasks collects after each, and would look at every object of
    every module. Objects that are set aside are freed as before once nothing refers to them. None
    of them is garbage now. Only cycles among them that become garbage later stay. A call sets
    nothing aside unless modules were imported since the last one did, so that this is bounded.
    """
    global _settled  # noqa: PLW0603 - of the process, as the objects are
    if not os.environ.get("SPARK_REUSE_WORKER") or len(sys.modules) == _settled:
        return
    gc.collect()
    gc.freeze()
    _settled = len(sys.modules)
