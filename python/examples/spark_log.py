"""Redirects the log output of Spark, Java and Python workers from the terminal to a file."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def spark_log(path: Path) -> Iterator[None]:
    """Redirect the standard error of processes that are started in the `with` block to a file.

    Java and the Python workers that it starts write to the file for as long as they run. After the
    block, errors of this process are written to the terminal again.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with path.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)
