"""Joins and aggregations with `--follow --state`: their growing inputs, and their runs."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import Result

from command_line import run, until
from tidegate.cli.saved import Saved

QUERIES = {
    "join": ["--on", "ts", "--by", "k", "--lower", "-40", "--upper", "0", "--how", "left"],
    "aggregate": ["--on", "ts", "--by", "k", "--size", "50", "--agg", "n=count()"],
}
INPUTS = ["left.arrows", "right.arrows"]
OUTPUTS = ["out.csv", "out.arrows", "out/"]
END_MARK = b"\xff\xff\xff\xff\0\0\0\0"


def table(side: int, first: int, rows: int) -> pa.Table:
    """Return some rows of an input, in order of time."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "ts": pa.array([3 * number + side for number in numbers]),
            "k": pa.array([f"k{number % 7}" for number in numbers]).dictionary_encode(),
            "v": pa.array([number / 8 + side for number in numbers]),
        }
    )


class Growing:
    """Arrow streams that grow by some rows at a time."""

    def __init__(self, folder: Path, first: int = 0) -> None:
        self._files = [pa.OSFile(str(folder / name), "wb") for name in INPUTS]
        self._writers = [pa.ipc.new_stream(file, table(0, 0, 1).schema) for file in self._files]
        self._rows = first
        # The columns are written immediately.
        for writer, file in zip(self._writers, self._files, strict=True):
            writer.write_batch(table(0, 0, 1).to_batches()[0][:0])
            file.flush()

    def grow(self, rows: int) -> None:
        """Add rows to each input."""
        for side, (writer, file) in enumerate(zip(self._writers, self._files, strict=True)):
            writer.write_table(table(side, self._rows, rows))
            file.flush()
        self._rows += rows

    def end(self) -> None:
        """End both streams."""
        for writer, file in zip(self._writers, self._files, strict=True):
            writer.close()
            file.close()


def command(query: str, out: str, *more: str, every: str = "1ms") -> list[str]:
    """Return the arguments of a command that follows the inputs."""
    options = ["--follow", "--state", "state", "--checkpoint", every, "-o", out]
    return [query, *INPUTS, *QUERIES[query], *options, *more]


def stopped(arguments: list[str], work: Callable[[], None]) -> Result:
    """Run a command and, at the same time, `work`; after `work`, stop the command with Ctrl-C."""
    failures: list[BaseException] = []

    def do() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=do)
    helper.start()
    try:
        result = run(*arguments)
    finally:
        helper.join()
    assert not failures, failures
    return result


def counted(folder: Path) -> bool:
    """Return whether the state counts everything in the inputs."""
    saved = Saved.load(str(folder / "state"))
    sizes = [(folder / name).stat().st_size for name in INPUTS]
    return saved is not None and [place.mark.position for place in saved.places] == sizes


def rows_of(folder: Path, out: str) -> list[dict[str, object]] | bytes:
    """Return the bytes of CSV, or the rows of other formats."""
    if out.endswith("csv"):
        return (folder / out).read_bytes()
    if out.endswith("/"):
        parts = sorted((folder / out).glob("part-*.parquet"))
        return [row for part in parts for row in pq.read_table(part).to_pylist()]
    content = pa.BufferReader((folder / out).read_bytes())
    rows = pa.ipc.open_stream(content).read_all().to_pylist()
    assert content.tell() == content.size(), "there are bytes after the end mark"
    return rows


def wanted(folder: Path, query: str, out: str) -> list[dict[str, object]] | bytes:
    """Return the result of one run without a state, after the inputs have ended."""
    name = "wanted.csv" if out.endswith("csv") else "wanted.arrows"
    result = run(query, *INPUTS, *QUERIES[query], "--follow", "--force", "-o", name)
    assert result.exit_code == 0, result.output
    found = rows_of(folder, name)
    (folder / name).unlink()
    return found


def grown(folder: Path, growing: Growing, steps: int = 3) -> Callable[[], None]:
    """Let the inputs grow several times, each time after a state counts the previous rows."""

    def work() -> None:
        for _ in range(steps):
            until(lambda: counted(folder))
            growing.grow(40)
        until(lambda: counted(folder))

    return work


def follow_here(folder: str, arguments: list[str]) -> None:
    """Run the command in a new process."""
    os.chdir(folder)
    result = run(*arguments)
    raise SystemExit(result.output or result.exit_code)
