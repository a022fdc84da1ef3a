"""Spark's daemon of Python workers, which imports beforehand what the workers will need.

A failed task and a killed worker cost a new worker. Its imports take a second, forking it takes
none. After each task a worker looks for garbage, for 45 ms if it goes through all that is imported,
which is more than the task of a test takes; so it leaves the imports out.
"""

import gc
from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    # Some tests have workers whose Python lacks the package.
    with suppress(ImportError):
        for name in ("tidegate.spark", "pandas", "pyarrow.compute", "pyspark.worker"):
            import_module(name)
    gc.freeze()
    manager()
