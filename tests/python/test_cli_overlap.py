"""The command `tidegate overlap`."""

from pathlib import Path

import pyarrow as pa
import pytest

from command_line import read, run, write

LEFT = pa.table({"start": [1, 5, 9], "end": [2, 7, 9], "k": ["a", "b", "a"]})
RIGHT = pa.table({"from": [2, 6, 8], "to": [5, 6, 20], "k": ["a", "a", "a"], "r": [1, 2, 3]})
ON = ["--on", "start,end=from,to"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(LEFT, tmp_path / "left.arrow")
    write(RIGHT, tmp_path / "right.arrow")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def result(folder: Path, *options: str) -> list[tuple]:
    done = run("overlap", "left.arrow", "right.arrow", *options, "--force", "-o", "out.arrow")
    assert done.exit_code == 0, done.output
    return [tuple(row.values()) for row in read(folder / "out.arrow").to_pylist()]


def test_options_reach_the_join(folder: Path) -> None:
    pairs = ["--columns", "start,r"]
    assert result(folder, *ON, *pairs) == [(1, 1), (5, 1), (5, 2), (9, 3)]
    assert result(folder, *ON, *pairs, "--closed", "left") == []
    assert result(folder, *ON, *pairs, "--by", "k") == [(1, 1), (9, 3)]
    assert result(folder, *ON, *pairs, "--where", "right.r > 1") == [(5, 2), (9, 3)]
    assert result(folder, *ON, "--how", "anti", "--by", "k", "--columns", "start") == [(5,)]
    counts = ["--agg", "n=count()", "--columns", "start"]
    assert result(folder, *ON, *counts) == [(1, 1), (5, 2), (9, 1)]
    assert result(folder, "--on", "start,start=from,to", *pairs) == [(5, 1), (9, 3)]
    plan = run("overlap", "left.arrow", "right.arrow", *ON, "--explain")
    assert "left.start <= right.to and right.from <= left.end" in plan.output


def test_one_pair_of_names_is_of_both_sides(folder: Path) -> None:
    write(LEFT, folder / "right.arrow")
    found = result(folder, "--on", "start,end", "--min-overlap", "2", "--columns", "start")
    assert found == [(5,)]


def test_growing_files_are_joined_in_the_order_of_the_starts(folder: Path) -> None:
    write(LEFT, folder / "left.arrows")
    write(RIGHT, folder / "right.arrows")
    files = ["overlap", "left.arrows", "right.arrows", *ON, "--columns", "start,r"]
    done = run(*files, "--follow", "--max-width", "9", "--state", "state", "-o", "out.csv")
    assert done.exit_code == 0, done.output
    # The last right row is 12 long.
    assert "1 of them late" in done.output
    found = read(folder / "out.csv").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 1), (5, 1), (5, 2)]
    for options, text in [
        (["--follow"], "max_width: a row can have any length"),
        (["--follow", "--max-width", "9", "--open-ends"], "open_ends: a row without an end"),
        (["--max-width", "9"], "--follow"),
    ]:
        done = run(*files, *options, "-o", "other.csv")
        assert done.exit_code != 0
        assert text in done.output


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--on", "start"], 2, "expected START,END or START,END=START,END, found 'start'"),
        (["--on", "start,end=from"], 2, "expected START,END or START,END=START,END"),
        (["--on", "start,=from,to"], 2, "expected START,END or START,END=START,END"),
        (["--on", "end,start=from,to"], 1, "left: row 0: column `end` is 1 steps after column"),
        ([*ON, "--min-overlap", "1m"], 1, "min_overlap is a duration, but the time columns are"),
    ],
)
def test_mistakes_are_told(folder: Path, options: list[str], code: int, text: str) -> None:
    done = run("overlap", "left.arrow", "right.arrow", *options, "-o", "out.arrow")
    assert done.exit_code == code
    assert text in done.output
    assert not (folder / "out.arrow").exists()
