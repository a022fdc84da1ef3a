"""The files that tasks write: whole or not at all, in local folders and object stores."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from operator import methodcaller
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tidegate.io import destinations
from tidegate.io.addresses import Place
from tidegate.io.destinations import names_in
from tidegate.io.http import HttpFiles
from tidegate.slices.task import Task

JOIN = {"on": "ts", "lower": 0, "upper": 5, "target": 3000}


@pytest.fixture
def sides(tmp_path: Path) -> tuple[str, str]:
    """Write two tables of 1,000 rows in time order, in 20 row groups each."""
    for name in ("left", "right"):
        table = pa.table({"ts": range(1000), name[0]: np.arange(1000) % 7})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=50)
    return str(tmp_path / "left.parquet"), str(tmp_path / "right.parquet")


@pytest.fixture
def spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of temporary files, which is empty at first."""
    folder = tmp_path / "spilled"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def planned(sides: tuple[str, str], **changes: object):
    plan = tg.tasks(tg.interval_join, *sides, **{**JOIN, **changes})
    assert len(plan.tasks) > 8
    return plan


def test_a_file_url_is_a_local_folder(sides, tmp_path):
    plan = planned(sides)
    (tmp_path / "result").mkdir()
    folder = f"file://{tmp_path}/result/"
    paths = [task.write(folder) for task in plan.tasks]
    assert paths[0] == f"file://{tmp_path}/result/{plan.tasks[0].name}"
    assert tg.digest(folder) == tg.digest(tg.interval_join(*sides, on="ts", lower=0, upper=5))
    assert not plan.missing(folder)
    assert not plan.missing(str(tmp_path / "result"))


def test_tasks_write_to_an_object_store(sides, bucket, spilled):
    plan = planned(sides)
    folder = "s3://market/result"
    assert len(plan.missing(folder)) == len(plan.tasks)
    half = plan.tasks[::2]
    paths = [task.write(folder) for task in half]
    assert paths == [f"{folder}/{task.name}" for task in half]
    assert [task.number for task in plan.missing(folder)] == [*range(1, len(plan.tasks), 2)]
    for task in plan.missing(f"{folder}/?region=us-east-1"):
        path = task.write(f"{folder}/?region=us-east-1")
        assert path == f"{folder}/{task.name}?region=us-east-1"
    assert tg.digest(folder) == tg.digest(tg.interval_join(*sides, on="ts", lower=0, upper=5))
    assert not [*spilled.iterdir()]


def test_an_object_appears_only_when_its_task_has_finished(sides, bucket, spilled, monkeypatch):
    task = planned(sides).tasks[0]
    first = next(iter(task.run()))

    def failing(_task: Task):
        yield first
        raise ZeroDivisionError

    monkeypatch.setattr(Task, "_batches", failing)
    with pytest.raises(ZeroDivisionError):
        task.write("s3://market/half")
    assert names_in("s3://market/half") == set()
    assert not [*spilled.iterdir()]


def test_an_object_that_cannot_be_written_is_named(sides, bucket, spilled):
    task = planned(sides).tasks[0]
    message = rf"^s3://nowhere/result/{task.name}: cannot be written as parquet: .*"
    with pytest.raises(tg.TidegateError, match=message):
        task.write("s3://key:hidden@nowhere/result")
    assert not [*spilled.iterdir()]
    with pytest.raises(tg.TidegateError, match=r"parquet: files cannot be written over HTTP"):
        task.write("http://127.0.0.1:9/result")
    with pytest.raises(tg.TidegateError, match=r"^http://127.0.0.1:9/result: cannot be listed"):
        planned(sides).missing("http://127.0.0.1:9/result")


class Full(HttpFiles):
    """A file system whose disk is full."""

    def open_output_stream(self, _path: str, _metadata: object) -> pa.PythonFile:
        return pa.PythonFile(Stream(), "w")


class Stream:
    """A stream that accepts no bytes."""

    closed = False

    def write(self, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_a_failing_copy_is_an_error_that_names_the_file(sides, spilled, monkeypatch):
    full = Place(pafs.PyFileSystem(Full()), "bucket/0.parquet", "s3://bucket/0.parquet")
    monkeypatch.setattr(destinations, "place_of", lambda _address, **_named: full)
    message = r"^s3://bucket/0\.parquet: cannot be written as parquet: No space left on device"
    with pytest.raises(tg.TidegateError, match=message):
        planned(sides).tasks[0].write("s3://bucket")
    assert not [*spilled.iterdir()]


def test_the_types_of_plans_are_imported_late():
    code = "import sys, tidegate; assert 'pyarrow' not in sys.modules; tidegate.TaskPlan"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert tg.Task is Task
    with pytest.raises(AttributeError, match="module 'tidegate' has no attribute 'Tusk'"):
        _ = tg.Tusk


# Resuming


def test_an_empty_file_is_missing(sides, tmp_path):
    plan = planned(sides)
    (tmp_path / plan.tasks[3].name).touch()
    assert len(plan.missing(str(tmp_path))) == len(plan.tasks)


def test_the_files_of_another_plan_are_refused(sides, tmp_path):
    folder = tmp_path / "result"
    folder.mkdir()
    written = planned(sides).tasks[5].write(str(folder))
    for changes in ({"upper": 4}, {"target": 2000}):
        with pytest.raises(tg.TidegateError, match=rf"^{written}: belongs to another plan"):
            planned(sides, **changes).missing(str(folder))
    (folder / "notes.txt").write_text("other files do not matter")
    assert len(planned(sides).missing(str(folder))) == len(planned(sides).tasks) - 1
    pq.write_table(pq.read_table(sides[0]).slice(1), sides[0], row_group_size=50)
    with pytest.raises(tg.TidegateError, match="because files, arguments or target have changed"):
        planned(sides).missing(str(folder))


# Runs the tasks in two processes. From the sixth task on, a process stops when the file is complete
# but still has its temporary name: it waits, or is killed.
INTERRUPTED = """
import operator, os, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import tidegate as tg

left, right, folder, how = sys.argv[1:]

def stop(_descriptor):
    os.kill(os.getpid(), signal.SIGKILL) if how == "worker" else time.sleep(600)

def write(task):
    if task.number >= 5:
        os.fsync = stop
    task.write(folder)

if __name__ == "__main__":
    plan = tg.tasks(tg.interval_join, left, right, on="ts", lower=0, upper=5, target=3000)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(write, plan.missing(folder)))
"""


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has SIGKILL")
@pytest.mark.parametrize("killed", ["worker", "all"])
def test_a_killed_pool_is_resumed(sides, tmp_path, killed):
    folder, script = tmp_path / "result", tmp_path / "script.py"
    folder.mkdir()
    script.write_text(INTERRUPTED)
    command = [sys.executable, script, *sides, folder, killed]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        if killed == "all":
            while len([*folder.glob("*.parquet")]) < 5 or len([*folder.glob(".*.tmp")]) < 2:
                assert process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    assert process.returncode == (-signal.SIGKILL if killed == "all" else 1)
    assert killed == "all" or b"BrokenProcessPool" in errors

    plan = planned(sides)
    done = {path.name for path in folder.glob("*.parquet")}
    assert done <= {task.name for task in plan.tasks[:5]}
    missing = plan.missing(str(folder))
    assert {task.name for task in missing} == {task.name for task in plan.tasks} - done
    assert 0 < sum(task.share for task in missing) <= 1
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert len([*pool.map(methodcaller("write", str(folder)), missing)]) == len(missing)
    assert not plan.missing(str(folder))
    assert pq.read_table(folder).equals(tg.interval_join(*sides, on="ts", lower=0, upper=5))
