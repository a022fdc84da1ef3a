"""What `tidegate doctor` reports."""

import os
import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version

import numpy as np
import pyarrow as pa


def report() -> Iterator[tuple[str, str]]:
    """Yield what is worth knowing about the installation and the machine, label by label."""
    yield "tidegate", version("tidegate")
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "platform", platform.platform()
    yield "pyarrow", pa.__version__
    yield "numpy", np.__version__
    yield "pyspark", _module("pyspark")
    yield "cpu features", _cpu_features()
    yield "threads", f"{_usable_cores()} of {os.cpu_count()} cores can be used"


def _module(name: str) -> str:
    """Import a module, as only that shows that it can be used."""
    try:
        module = import_module(name)
    except ImportError as error:
        return f"cannot be imported: {error}"
    return str(module.__version__)


def _cpu_features() -> str:
    """Ask numpy, which looks at the processor on every platform."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return " ".join([*simd["baseline"], *simd["found"]])


def _usable_cores() -> int:
    """Count the cores this process may run on, which a container can have narrowed."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
