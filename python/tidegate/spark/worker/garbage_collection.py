"""Excludes the objects of imported modules from garbage collection in a Python worker."""

from __future__ import annotations

import gc
import os
import sys

# The number of modules in this worker when its objects were last excluded.
_settled = 0


def settle() -> None:
    """Exclude existing objects from the garbage collections that PySpark runs after tasks.

    A worker that is kept for later tasks runs a garbage collection after each task. This collection
    would scan every object of every module. Excluded objects are still freed once nothing refers to
    them. No object is garbage when this function is called. The only objects that are never freed
    are cycles of excluded objects that become garbage later. The number of such cycles is bounded,
    because objects are excluded again only if modules have been imported since the last call.
    """
    global _settled  # noqa: PLW0603 - the objects also belong to the process
    if not os.environ.get("SPARK_REUSE_WORKER") or len(sys.modules) == _settled:
        return
    gc.collect()
    gc.freeze()
    _settled = len(sys.modules)
