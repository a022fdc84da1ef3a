"""Describes the machine that a bench runs on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def processor() -> str:
    """Return the name of the processor, and its vector instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    name = re.search(r"model name\s*: (.*)", text)
    wide = " ".join(sorted({"avx2", "avx512f", "asimd"} & set(text.split())))
    return f"{name[1] if name else platform.machine()} ({wide})"


def machine() -> str:
    """Return the number of processors and their name."""
    return f"{os.cpu_count()} processors, {processor()}"
