"""Failed writes leave existing output intact and no temporary files, and the next run succeeds."""

import errno
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from command_line import run
from following_run import Growing, command, rows_of, wanted
from tidegate.bounded import shares, sorting
from tidegate.cli.saved import Saved
from tidegate.io import files, partitioned

ROWS = 3000
TABLE = pa.table({"ts": range(ROWS), "k": ["a", "b", "c"] * (ROWS // 3), "x": range(ROWS)})
JOIN = ["join", "in.parquet", "in.parquet", "--on", "ts", "--lower", "0", "--upper", "0"]
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")
SHORT = MemoryError("no memory")
FAULT = RuntimeError("a fault")
# The number of the call that fails, and its error.
FAILURES = [(1, FULL), (2, BROKEN), (3, SHORT), (1, FAULT), (3, FULL)]
LATER = [(1, SHORT), (2, FULL), (3, BROKEN), (5, FULL), (8, FULL)]


class Failing:
    """Counts calls and raises an error on the n-th call."""

    def __init__(self, at: int, failure: Exception) -> None:
        self.left = at
        self.failure = failure

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.failure

    @property
    def has_failed(self) -> bool:
        return self.left <= 0

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that the n-th call fails."""

        def call(*given: Any, **named: Any) -> Any:
            self.count()
            return function(*given, **named)

        return call

    def opening(self, function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
        """Wrap a function that opens files so that the n-th write to any of them fails."""

        def call(*given: Any, **named: Any) -> Any:
            file = function(*given, **named)
            is_meant = file.writable() and (not name or Path(file.name).name.startswith(name))
            return Written(file, self) if is_meant else file

        return call


class Written:
    """A file whose writes may fail."""

    def __init__(self, file: Any, failing: Failing) -> None:
        self._file = file
        self.write = failing.before(file.write)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()


@contextmanager
def failing_at(place: str, at: int, failure: Exception) -> Iterator[Failing]:
    """Make the n-th call of the given kind fail."""
    failing = Failing(at, failure)
    with pytest.MonkeyPatch.context() as patch:
        if place == "write":
            patch.setattr(files, "open", failing.opening(open), raising=False)
        elif place == "live write":
            patch.setattr(Path, "open", failing.opening(Path.open, "out"))
        elif place == "part write":
            patch.setattr(Path, "open", failing.opening(Path.open, ".part"))
        elif place == "spill":
            opened = failing.opening(tempfile.TemporaryFile)
            patch.setattr(sorting.tempfile, "TemporaryFile", opened)
        elif place == "fsync":
            patch.setattr(files.os, "fsync", failing.before(files.os.fsync))
        elif place == "rename":
            patch.setattr(Path, "replace", failing.before(Path.replace))
        elif place == "batch":
            patch.setattr(partitioned.ds, "write_dataset", failing.before(ds.write_dataset))
        yield failing


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, tmp_path / "in.parquet", row_group_size=500)
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 500)
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(("at", "failure"), FAILURES, ids=repr)
@pytest.mark.parametrize(
    ("out", "place"),
    [
        *((f"out.{ending}", "write") for ending in ("parquet", "csv", "csv.gz", "jsonl", "arrow")),
        ("out.parquet", "fsync"),
        ("out.parquet", "rename"),
        ("out", "fsync"),
        ("out", "batch"),
    ],
)
def test_an_output_that_fails_leaves_the_old_one(folder, out, place, at, failure) -> None:
    options = [*(["--partition-by", "k"] if out == "out" else []), "-q", "--force", "-o", out]
    assert run(*JOIN, "--where", "left.x < 9", *options).exit_code == 0
    before = content(folder)

    with failing_at(place, at, failure) as failing:
        result = run(*JOIN, *options)

    if not failing.has_failed:
        assert result.exit_code == 0
        return
    # A folder is synced after the rename, so the new output already exists.
    if place == "fsync" and content(folder) != before:
        before = content(folder)
        assert not [name for name in before if name.startswith(".")]
    assert result.exit_code == 1
    assert result.stderr.startswith("tidegate: error: ")
    assert result.stderr.count("\n") == 1
    assert content(folder) == before
    assert run(*JOIN, *options).exit_code == 0
    found = ds.dataset(out, partitioning="hive") if out == "out" else None
    if found is not None:
        assert found.count_rows() == ROWS
    assert not [name for name in content(folder) if name.startswith(".")]


# Temporary files for sorting


@pytest.mark.parametrize(("at", "failure"), FAILURES, ids=repr)
@pytest.mark.parametrize("call", ["join", "aggregate"])
def test_a_sort_that_fails_loses_no_row_of_the_next_one(tmp_path, monkeypatch, call, at, failure):
    for name, value in {"LEAST": 1, "BESIDE": 0, "LEAST_ROWS": 3}.items():
        monkeypatch.setattr(shares, name, value)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    times = [number * 7919 % ROWS for number in range(ROWS)]
    rows = pa.table({"ts": times, "x": range(ROWS)})
    path = tmp_path / "rows.csv"
    pa.csv.write_csv(rows, path)

    def work() -> list[Any]:
        if call == "join":
            query: Any = {"on": "ts", "lower": 0, "upper": 0}
            made = tg.interval_join_batches(path, path, **query, memory_limit=60_000)
        else:
            query = {"on": "ts", "size": 1, "aggs": {"x": tg.agg.sum("x")}}
            made = tg.aggregate_batches(path, **query, memory_limit=60_000)
        with made as batches:
            return sorted(row["x"] for batch in batches for row in batch.to_pylist())

    with (
        failing_at("spill", at, failure) as failing,
        pytest.raises((tg.TidegateError, type(failure))),
    ):
        work()
    assert failing.has_failed
    assert work() == [*range(ROWS)]
    assert [one.name for one in tmp_path.iterdir()] == ["rows.csv"]


# States and their outputs


@pytest.mark.parametrize(("at", "failure"), LATER, ids=repr)
@pytest.mark.parametrize(
    ("out", "place"),
    [
        ("out.csv", "live write"),
        ("out.arrows", "live write"),
        ("out/", "part write"),
        *((out, place) for out in ("out.csv", "out/") for place in ("write", "fsync", "rename")),
    ],
)
def test_a_state_that_fails_gives_the_rows_of_one_run(
    tmp_path, monkeypatch, out, place, at, failure
):
    monkeypatch.chdir(tmp_path)
    growing = Growing(tmp_path)
    growing.grow(60)
    growing.end()

    with failing_at(place, at, failure) as failing:
        result = run(*command("join", out, every="1ms"))
    if failing.has_failed:
        assert result.exit_code == 1
        assert result.stderr.startswith("tidegate: error: ")
        saved = Saved.load("state")
        assert saved is None or saved.what == "join"
        result = run(*command("join", out, every="1ms"))
    assert result.exit_code == 0, result.output

    assert rows_of(tmp_path, out) == wanted(tmp_path, "join", out)
    left = [path.name for path in tmp_path.rglob("*") if path.name.startswith((".", "state"))]
    assert left == []
