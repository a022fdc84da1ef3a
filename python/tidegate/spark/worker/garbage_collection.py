"""Excludes the objects of imported modules from garbage collection in a Python worker."""

from __future__ import annotations

import gc
import os
import sys

# The number of modules in this worker when its objects were last excluded.
_settled = 0


def settle() -> None:
    """Exclude existing objects from the garbage collections that PySpark runs after tasks.

    A worker that is kept for later tasks runs a collection after each task, which would scan every
    object of every module. Excluded objects are still freed once nothing refers to them. No object
    is garbage at the time of the call. Only cycles of excluded objects that become garbage later
    are never freed. The number of such cycles is bounded, because a call excludes objects only if
    modules have been imported since objects were last excluded.
    """
    global _settled  # noqa: PLW0603 - the objects also belong to the process
    if not os.environ.get("SPARK_REUSE_WORKER") or len(sys.modules) == _settled:
        return
    gc.collect()
    gc.freeze()
    _settled = len(sys.modules)
