"""The report of `tidegate doctor`."""

import os
import platform
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pyarrow as pa

import tidegate
from tidegate import _tidegate


def report() -> Iterator[tuple[str, str]]:
    """Yield facts about the installation and the machine, each with a label."""
    yield "tidegate", tidegate.__version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "platform", platform.platform()
    yield "pyarrow", pa.__version__
    yield "numpy", np.__version__
    yield "pyspark", _module("pyspark")
    yield "cpu features", _cpu_features()
    yield "instructions", f"{_tidegate.SIMD}; set TIDEGATE_SIMD to use others"
    yield "threads", f"{tidegate.default_threads()} by default, {os.cpu_count()} cores"


def _module(name: str) -> str:
    """Import a module to check that it works, and return its version."""
    try:
        module = import_module(name)
    except ImportError as error:
        return f"cannot be imported: {error}"
    return str(module.__version__)


def _cpu_features() -> str:
    """Return the SIMD features that numpy detects; numpy supports this on every platform."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return " ".join([*simd["baseline"], *simd["found"]])
