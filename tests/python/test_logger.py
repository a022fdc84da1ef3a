"""The logger `tidegate`: late rows, the memory limit, silent sources and restored operators."""

import logging
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.runtime import logger as _logger

SCHEMA = pa.schema({"ts": pa.int64()})


@pytest.fixture(autouse=True)
def _nothing_told(caplog: pytest.LogCaptureFixture) -> None:
    _logger._TOLD.clear()
    caplog.set_level(logging.INFO, logger="tidegate")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_late_rows_are_told_once_a_while(caplog: pytest.LogCaptureFixture):
    merge = tg.Merge(SCHEMA, sources=2)
    merge.sources[0].push([(10,)])
    assert told(caplog) == []
    for _ in range(3):
        merge.sources[0].push([(5,), (11,)])
    text = "source 0: 1 of 2 rows were set aside because they are late or too wide (1 of 3 so far)"
    assert told(caplog) == [("WARNING", f"{text}; late() returns them")]
    merge.sources[1].push([(10,), (5,)])
    assert len(told(caplog)) == 2


def test_a_push_that_the_memory_limit_refuses_is_told(caplog: pytest.LogCaptureFixture):
    merge = tg.Merge(SCHEMA, memory_limit=400)
    merge.sources[0].push([(1,)] * 6)
    for _ in range(2):
        with pytest.raises(tg.MemoryLimitError) as refused:
            merge.sources[0].push([(1,)] * 6)
    assert told(caplog) == [("WARNING", str(refused.value))]


def test_a_restored_operator_is_told(caplog: pytest.LogCaptureFixture):
    merge = tg.Merge(SCHEMA)
    merge.sources[0].push([(1,), (2,)])
    again = tg.Merge(SCHEMA)
    again.restore(merge.snapshot())
    text = "a merge was restored; 2 rows of its sources have arrived"
    assert told(caplog) == [("INFO", text)]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("waits", ["iterates", "runs"])
def test_a_silent_source_that_a_caller_waits_for_is_told(
    waits: str, caplog: pytest.LogCaptureFixture
):
    """The warning is logged after ten seconds, and only while rows wait for the source."""
    merge = tg.Merge(SCHEMA, sources=2)
    found: list[Any] = []

    def wait() -> None:
        if waits == "runs":
            merge.run(found.append)
        else:
            found.extend(merge)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    merge.sources[0].push([(1,), (2,)])
    while not told(caplog):
        waiting.join(0.05)
        assert waiting.is_alive()
    ((level, text),) = told(caplog)
    assert level == "WARNING"
    assert re.fullmatch(
        r"2 rows of a merge wait for source 1, which has been silent for \d+ s; "
        r"call its advance\(\) or idle\(\)",
        text,
    )
    for source in merge.sources:
        source.close()
    waiting.join(30)
    assert sum(batch.num_rows for batch in found) == 2


def test_nothing_is_kept_of_what_nobody_listens_to(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR, logger="tidegate")
    merge = tg.Merge(SCHEMA)
    merge.sources[0].push([(2,), (1,)])
    assert told(caplog) == []
    caplog.set_level(logging.INFO, logger="tidegate")
    merge.sources[0].push([(1,)])
    assert len(told(caplog)) == 1


def test_what_is_told_is_bounded():
    for number in range(2 * _logger._MOST):
        _logger.tell("late", number, "")
    assert len(_logger._TOLD) <= _logger._MOST


def test_a_handler_that_raises_loses_no_push(monkeypatch: pytest.MonkeyPatch):
    class Raising(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError(record.getMessage())

    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: seen.append(str(hook.exc_value)))
    monkeypatch.setattr(logging.getLogger("tidegate"), "handlers", [Raising()])
    merge = tg.Merge(SCHEMA)
    merge.sources[0].push([(2,), (1,)])
    assert merge.stats()["rows_in"] == 2
    assert [text.split(":")[0] for text in seen] == ["source 0"]


# Retained memory


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )


JOIN = """
    import numpy as np, pyarrow as pa, tidegate as tg
    rows = pa.table({"ts": np.arange(400_000)})
    pairs = tg.interval_join(rows, rows, on="ts", lower=0, upper=2)
    del pairs
    print(tg.release_memory(), tg.release_memory())
"""


def test_memory_that_is_kept_is_released_once():
    assert run(JOIN).stdout == "True False\n"


SMALL = """
    import os
    import numpy as np, tidegate as tg
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    arrays = [np.ones(4_000) for _ in range(6_000)]
    kept = arrays[::100]
    before = resident()
    del arrays
    freed = before - resident()
    tg.release_memory()
    print(freed < 20_000_000, before - resident() > 150_000_000)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the GNU C library")
def test_free_pages_among_small_arrays_are_released():
    assert run(SMALL).stdout == "True True\n"


def test_a_variable_says_how_much_memory_is_kept():
    assert run(JOIN, TIDEGATE_POOL_BYTES="0").stdout == "False False\n"
    assert run(JOIN, TIDEGATE_POOL_BYTES="").stdout == "True False\n"
    wrong = run("import tidegate", TIDEGATE_POOL_BYTES="much")
    assert (
        'TIDEGATE_POOL_BYTES: expected a number of bytes, such as 0 or 335544320, got "much"'
        in (wrong.stderr)
    )


class Interrupted(dict[tuple[str, int], float]):
    """A dict whose first operation a signal interrupts."""

    has_come = False

    def _come(self) -> None:
        if not self.has_come:
            self.has_come = True
            os.kill(os.getpid(), signal.SIGUSR1)

    def get(self, *given: Any) -> Any:
        self._come()
        return super().get(*given)

    def setdefault(self, *given: Any) -> Any:
        self._come()
        return super().setdefault(*given)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="the system has no signals")
def test_a_signal_handler_tells_while_the_thread_tells(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    one, other = tg.Merge(SCHEMA), tg.Merge(SCHEMA)
    for merge in (one, other):
        merge.sources[0].push([(10,)])
    before = signal.signal(signal.SIGUSR1, lambda *_: other.sources[0].push([(5,)]))
    try:
        monkeypatch.setattr(_logger, "_TOLD", Interrupted())
        one.sources[0].push([(5,)])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(told(caplog)) == 2


def test_of_threads_that_tell_the_same_one_is_heard(caplog: pytest.LogCaptureFixture):
    _logger._TOLD["late", 1] = -1e9
    threads = [threading.Thread(target=_logger.tell, args=("late", 1, "rows")) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told(caplog) == [("WARNING", "rows")]
