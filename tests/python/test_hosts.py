"""The examples of `docs/any-cluster.md` for Dask, Ray and a shell run, and return all rows.

`make hosts` runs these tests in an environment with Dask and Ray. Elsewhere, they are skipped.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg

PAGE = (Path(__file__).parents[2] / "docs" / "any-cluster.md").read_text("utf-8")
SCRIPTS = [
    block
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    if ">>>" not in block
]
[SHELL] = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
QUERY = {"on": "time", "by": "symbol", "lower": "-5s", "upper": "0s"}
# Ray must not report usage, or start a page that shows what it does.
ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DASHBOARD_ENABLED": "0"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write trades and quotes, and return their folder."""
    for name, value in (("trades", "price"), ("quotes", "bid")):
        (tmp_path / name).mkdir()
        times = np.datetime64("2026-03-02", "ms") + 800 * np.arange(200_000)
        symbols = np.resize(["ACME", "ZETA", "OXEN"], 200_000)
        rows = pa.table({"time": times, "symbol": symbols, value: np.arange(200_000.0)})
        pq.write_table(rows, tmp_path / name / "0.parquet", row_group_size=10_000)
    return tmp_path


def ran(folder: Path, *command: str) -> str:
    """Run a program in the folder, and return what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | ALONE | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_whole(folder: Path) -> None:
    """Check that the files in `pairs` contain each row of the join once."""
    files = [*(folder / "pairs").iterdir()]
    assert len(files) > 3
    wanted = tg.interval_join(folder / "trades", folder / "quotes", **QUERY)
    assert pq.read_table(folder / "pairs").equals(wanted)


@pytest.mark.skipif(sys.platform == "win32", reason="the example needs a Unix shell")
def test_the_example_for_a_shell_runs_and_resumes(folder):
    ran(folder, "bash", "-ec", SHELL)
    assert_whole(folder)
    killed = sorted((folder / "pairs").iterdir())[1]
    before = {path: path.stat().st_mtime_ns for path in (folder / "pairs").iterdir()}
    killed.unlink()
    ran(folder, "bash", "-ec", SHELL)
    assert_whole(folder)
    after = {path: path.stat().st_mtime_ns for path in (folder / "pairs").iterdir()}
    assert [path for path in after if after[path] != before[path]] == [killed]
    ran(folder, "bash", "-ec", SHELL)


def needed(script: str) -> str:
    """Return the host that a script runs on."""
    return "ray" if "import ray" in script else "dask"


def test_the_page_has_two_examples_per_host():
    assert [needed(script) for script in SCRIPTS] == ["dask", "dask", "ray", "ray"]


@pytest.mark.parametrize("number", range(4))
def test_the_example_for_a_host_runs(folder, number):
    script = SCRIPTS[number]
    if importlib.util.find_spec(needed(script)) is None:
        pytest.skip(f"no {needed(script)}: `make hosts` runs this test")
    # Processes that are started afresh import the script, unless it is passed with `-c`.
    printed = ran(folder, sys.executable, "-c", script)
    if "missing" in script:
        assert_whole(folder)
        ran(folder, sys.executable, "-c", script)
    else:
        wanted = tg.interval_join(folder / "trades", folder / "quotes", **QUERY)
        assert printed.split()[-1] == str(wanted.num_rows)
