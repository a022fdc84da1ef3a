"""`--state`: runs that are repeatedly killed at random times produce the output of one run.

`CAMPAIGN=33` in the environment kills each query and output about 100 times, which takes some
minutes.
"""

import multiprocessing
import os
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

import campaign
from cases import more
from command_line import PATIENCE, run
from following_run import (
    INPUTS,
    OUTPUTS,
    Growing,
    command,
    follow_here,
    rows_of,
    wanted,
)

KILLS = campaign.tries(3)

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="kills forked processes"),
    pytest.mark.timeout(120 + 10 * KILLS),
]


@pytest.fixture(scope="module")
def processes():
    """Return a context whose processes have imported all modules before they start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["following_run"])
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.11 does not pass `sys.path` to the server.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(state: Path) -> bytes:
    """Return the bytes of a state, or none if the file does not exist."""
    return state.read_bytes() if state.exists() else b""


@pytest.mark.parametrize(
    ("query", "out"),
    [*(("join", out) for out in OUTPUTS), ("aggregate", "out.csv"), *more(("aggregate", "out/"))],
)
def test_each_row_comes_once(folder, processes, query, out):
    draw = campaign.rng(f"kills of {query} {out}")
    growing = Growing(folder)
    arguments = command(query, out, "--quiet")
    state = folder / "state"
    wrote = 0
    for number in range(KILLS):
        before = content(state)
        process = processes.Process(target=follow_here, args=(str(folder), arguments), daemon=True)
        process.start()
        # Most runs are killed some time after their first checkpoint, and some when they start.
        begins = number % 3 < 2
        after = draw.choice([0.05, 0.2, 0.5, 1]) * draw.random()
        end = time.monotonic() + (PATIENCE if begins else after)
        # A resumed run reads all batches again, because of their dictionaries.
        steps = 60
        while time.monotonic() < end:
            assert process.is_alive()
            if begins and content(state) != before:
                begins, end = False, time.monotonic() + after
            if steps:
                steps -= 1
                growing.grow(draw.choice([1, 5, 20]))
            time.sleep(0.001)
        assert not begins, "no checkpoint was written"
        process.kill()
        process.join(PATIENCE)
        assert process.exitcode == -9
        process.close()
        wrote += content(state) != before
    growing.grow(50)
    growing.end()
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert rows_of(folder, out) == wanted(folder, query, out)
    parts = {f"out/{path.name}" for path in (folder / "out").glob("part-*.parquet")}
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert found == {*INPUTS, out.rstrip("/"), *parts}
    assert wrote >= KILLS * 2 // 3, "too few runs wrote a checkpoint"
