"""Keeps what Spark, Java and Python's workers note out of the terminal."""

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
    """Let the processes that begin meanwhile write their errors and notes to a file.

    Java and the workers that it starts keep the file for as long as they run. The errors of this
    process go to the terminal again afterwards.
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
