"""The command `tidegate merge`: its output, messages, memory use and exit codes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import more
from command_line import read, run, shell, write

MONDAY = pa.table({"ts": [1, 4, 9], "name": ["a", "b", None]})
TUESDAY = pa.table({"ts": [2, 4, 4], "name": ["x", "y", "z"]})
WEDNESDAY = pa.table({"ts": [0, 4], "name": ["p", "q"]})
WEEK = pa.table({"ts": [0, 1, 2, 4, 4, 4, 4, 9], "name": ["p", "a", "x", "b", "y", "z", "q", None]})
FILES = ["monday.parquet", "tuesday.csv", "wednesday.arrow"]
MERGE = ["merge", *FILES, "--on", "ts"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the files to merge, and those that the examples name."""
    days = {"monday": MONDAY, "tuesday": TUESDAY, "wednesday": WEDNESDAY}
    for day, table in days.items():
        for ending in ("parquet", "csv", "arrow", "arrows", "csv.gz"):
            write(table, tmp_path / f"{day}.{ending}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "day." not in path.name)


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "arrow", "arrows"])
def test_every_format_in_and_out(folder: Path, ending: str) -> None:
    files = [f"{day}.{ending}" for day in ("monday", "tuesday", "wednesday")]

    result = run("merge", *files, "--on", "ts", "-o", f"week.{ending}")

    assert result.exit_code == 0, result.output
    assert read(folder / f"week.{ending}").equals(WEEK)


def test_formats_may_be_mixed_and_threads_do_not_matter(folder: Path) -> None:
    for threads in ("1", "3"):
        out = f"{threads}.parquet"
        assert run(*MERGE, "--threads", threads, "-o", out).exit_code == 0
        assert read(folder / out).equals(WEEK)


def test_lateness_lets_rows_be_out_of_order(folder: Path) -> None:
    write(MONDAY.take([1, 0, 2]), folder / "monday.parquet")

    refused = run(*MERGE, "-o", "week.parquet")
    assert refused.exit_code == 1
    assert "monday.parquet: row 1 of `ts` is 1, after a row that promised" in refused.stderr
    assert leftovers(folder) == []

    assert run(*MERGE, "--lateness", "3", "-o", "week.parquet").exit_code == 0
    assert read(folder / "week.parquet").equals(WEEK)


def test_standard_streams(folder: Path) -> None:
    given = (folder / "monday.arrows").read_bytes()
    result = shell("merge", "-", "tuesday.csv", "wednesday.arrow", "--on", "ts", given=given)

    assert result.returncode == 0, result.stderr
    assert pa.ipc.open_stream(result.stdout).read_all().equals(WEEK)


def test_a_named_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.csv")
    command = [sys.executable, "-m", "tidegate", "merge", "pipe.csv", *FILES[1:], "--on", "ts"]
    with subprocess.Popen([*command, "-o", "week.parquet"], stderr=subprocess.PIPE) as process:
        (folder / "pipe.csv").write_bytes((folder / "monday.csv").read_bytes())
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert read(folder / "week.parquet").equals(WEEK)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "bar", "summary"),
    [([], False, True), (["--progress"], True, True), (["--quiet", "--progress"], False, False)],
)
def test_progress_and_summary(options: list[str], *, bar: bool, summary: bool) -> None:
    result = run(*MERGE, "-o", "week.csv", *options)

    assert result.exit_code == 0
    assert ("merge: " in result.stderr) is bar
    said = re.search(r"tidegate: 8 rows of 3 files, \d+\.\d\d s, [\d,]+ rows/s\n$", result.stderr)
    assert (said is not None) is summary


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["merge", "--on", "ts"], 2, "FILE"),
        (["merge", "monday.csv"], 2, "--on"),
        (["merge", "-", "-", "--on", "ts"], 2, "only one of the files can be -"),
        (["merge", "monday.data", "--on", "ts"], 2, "--in-format"),
        (["merge", "none.csv", "--on", "ts"], 1, "none.csv: cannot be read: No such file"),
        ([*MERGE, "--on", "at"], 1, "there is no column `at`"),
        ([*MERGE, "--lateness", "1 parsec"], 1, "lateness: "),
        ([*MERGE, "--lateness", "-1"], 1, "lateness must not be negative"),
        ([*MERGE, "other.parquet"], 1, "other.parquet: expected rows of (ts: int64, name: string)"),
        ([*MERGE, "cut.parquet"], 1, "cut.parquet: cannot be read as parquet"),
        (
            [*MERGE, "text.csv"],
            1,
            "text.csv: cannot be read as csv: in line 1,500,002: column `ts` is int64",
        ),
        ([*MERGE, "null.parquet"], 1, "null.parquet: column `ts`, row 1: the time is null"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(
    folder: Path, arguments: list[str], code: int, reason: str
) -> None:
    others = {
        "other.parquet": pa.table({"ts": [1], "id": ["a"]}),
        "null.parquet": pa.table({"ts": [1, None], "name": ["a", "b"]}),
    }
    for name, table in others.items():
        write(table, folder / name)
    (folder / "cut.parquet").write_bytes((folder / "monday.parquet").read_bytes()[:-9])
    # A file whose times become strings after the part from which types are inferred.
    (folder / "text.csv").write_text("ts,name\n" + "1,a\n" * 1_500_000 + "later,b\n")

    result = run(*arguments, "-o", "out.parquet")

    assert result.exit_code == code
    assert reason in result.stderr
    if code == 1:
        assert result.stderr.startswith("tidegate: error: ")
        assert result.stderr.count("\n") == 1
    assert leftovers(folder) == ["cut.parquet", "null.parquet", "other.parquet", "text.csv"]


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), *more((signal.SIGTERM, 143))])
def test_a_signal_leaves_no_file(folder: Path, number: signal.Signals, code: int) -> None:
    numbers = np.arange(500_000)
    write(pa.table({"ts": numbers, "x": numbers}), folder / "manyday.parquet")
    command = [sys.executable, "-m", "tidegate", "merge", *["manyday.parquet"] * 400]
    command += ["--on", "ts", "-o", "out.parquet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not leftovers(folder):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

    assert process.returncode == code, said
    assert b"Traceback" not in said
    assert leftovers(folder) == []


# Memory use

# Runs a merge, and prints the peak memory of the process in kilobytes. The value of getrusage would
# include the memory of the parent process.
MEASURE = """
import re, sys
from pathlib import Path
from tidegate.cli import main
try:
    main()
finally:
    print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
"""


def peak(folder: Path, *files: str, out: str) -> int:
    """Return the peak memory of a merge in bytes."""
    command = [sys.executable, "-c", MEASURE, "merge", *files, "--on", "ts", "-o", out, "--force"]
    done = subprocess.run(
        [*command, "--threads", "2"], capture_output=True, text=True, check=True, cwd=folder
    )
    return int(done.stderr.split()[-1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="other systems measure memory differently")
@pytest.mark.parametrize("ending", ["csv", *more("parquet", "arrow")])
def test_memory_does_not_grow_with_the_files(tmp_path: Path, ending: str) -> None:
    # Long strings add many bytes that are written and read fast.
    texts = pa.array([letter * 150 for letter in "abcdefgh"])
    sizes = {}
    for name, rows in (("small", 300_000), ("large", 550_000)):
        random = np.random.default_rng(rows)
        for source in range(2):
            times = np.sort(random.integers(0, 10**9, rows))
            table = pa.table({"ts": times, "text": texts.take(random.integers(0, 8, rows))})
            path = tmp_path / f"{name}{source}.{ending}"
            if ending == "parquet":
                pq.write_table(table, path, row_group_size=1 << 14)
            else:
                write(table, path)
        files = [f"{name}{source}.{ending}" for source in range(2)]
        sizes[name] = peak(tmp_path, *files, out=f"out.{ending}")
        assert read(tmp_path / f"out.{ending}").num_rows == 2 * rows
    # The large files have 80 MB more rows, but the small ones already fill the buffers.
    assert sizes["large"] - sizes["small"] < 36 << 20
