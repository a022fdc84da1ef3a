"""The command `tidegate asof`."""

from pathlib import Path

import pyarrow as pa
import pytest

from command_line import read, run, write

LEFT = pa.table({"ts": [10, 20, 30], "k": ["a", "b", "a"], "limit": [5, 5, 1]})
RIGHT = pa.table({"at": [9, 10, 22, 28], "k": ["a", "a", "b", "a"], "ask": [3, 7, 5, 2]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(LEFT, tmp_path / "left.arrow")
    write(RIGHT, tmp_path / "right.arrow")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs(folder: Path, *options: str) -> list[tuple[int, int | None]]:
    result = run(
        "asof", "left.arrow", "right.arrow", "--on", "ts=at", *options, "--force", "-o", "out.arrow"
    )
    assert result.exit_code == 0, result.output
    return [(row["ts"], row.get("at")) for row in read(folder / "out.arrow").to_pylist()]


def test_every_option_reaches_the_join(folder: Path) -> None:
    assert pairs(folder) == [(10, 10), (20, 10), (30, 28)]
    assert pairs(folder, "--by", "k") == [(10, 10), (20, None), (30, 28)]
    assert pairs(folder, "--by", "k", "--strategy", "forward") == [(10, 10), (20, 22), (30, None)]
    assert pairs(folder, "--strategy", "nearest") == [(10, 10), (20, 22), (30, 28)]
    assert pairs(folder, "--tolerance", "2") == [(10, 10), (20, None), (30, 28)]
    assert pairs(folder, "--no-exact") == [(10, 9), (20, 10), (30, 28)]
    assert pairs(folder, "--where", "right.ask <= left.limit") == [(10, 9), (20, 9), (30, None)]
    assert pairs(folder, "--by", "k", "--how", "inner") == [(10, 10), (30, 28)]
    assert pairs(folder, "--by", "k", "--how", "anti") == [(20, None)]
    assert pairs(folder, "--columns", "at,ts", "--threads", "1")[0] == (10, 10)


def test_the_plan_is_printed(folder: Path) -> None:
    plan = run(
        "asof", "left.arrow", "right.arrow", "--on", "ts=at", "--tolerance", "3", "--explain"
    )
    assert "the last right.at <= left.ts, at most 3 away" in plan.output
    assert not (folder / "out.arrow").exists()


def test_files_that_are_followed_have_the_same_rows(folder: Path) -> None:
    write(LEFT, folder / "left.arrows")
    write(RIGHT, folder / "right.arrows")
    for options in (
        ["--by", "k"],
        ["--strategy", "nearest", "--no-exact"],
        ["--strategy", "forward", "--tolerance", "3", "--how", "anti"],
        ["--where", "right.ask <= left.limit", "--columns", "at,ts"],
    ):
        command = ["asof", "left.arrows", "right.arrows", "--on", "ts=at", *options, "--follow"]
        followed = run(*command, "--state", "state", "--force", "-o", "out.arrows")
        assert followed.exit_code == 0, followed.output
        found = [(row["ts"], row.get("at")) for row in read(folder / "out.arrows").to_pylist()]
        assert sorted(found, key=str) == sorted(pairs(folder, *options), key=str)
        assert "  cost       a poll" in run(*command, "--explain").output


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--on", "ts=at", "--strategy", "last"], 2, "'last' is not one of"),
        (["--on", "ts=at", "--how", "right"], 2, "'right' is not one of"),
        (["--on", "ts=at", "--tolerance", "-1"], 1, "tolerance must not be negative"),
        (["--on", "ts=at", "--tolerance", "5s"], 1, "tolerance is a duration, but the time"),
        (["--on", "ts"], 1, "right: there is no column `ts`"),
        (["--on", "ts=at", "--max-rows", "1"], 1, "more than max_rows = 1"),
        (["--on", "ts=at", "--max-rows", "1", "--follow"], 2, "cannot be combined with --follow"),
        (["--on", "ts=at", "--lateness", "1"], 2, "needs --follow"),
    ],
)
def test_what_cannot_be_joined_is_said(
    folder: Path, options: list[str], code: int, text: str
) -> None:
    result = run("asof", "left.arrow", "right.arrow", *options, "-o", "out.arrow")
    assert result.exit_code == code
    assert text in result.output
    assert not (folder / "out.arrow").exists()
