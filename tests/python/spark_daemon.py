"""Spark's daemon of Python workers, which imports in advance the modules that workers will need.

After a failed task or a killed worker, Spark starts a new worker. Importing its modules takes a
second, but forking takes no time. After each task, a worker collects garbage, which takes 45 ms if
it scans all imported modules. This is longer than a task of a test, so the imports are excluded.
"""

import gc
from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    # Some tests use workers whose Python lacks the package.
    with suppress(ImportError):
        for name in ("tidegate.spark", "pandas", "pyarrow.compute", "pyspark.worker"):
            import_module(name)
    gc.freeze()
    manager()
