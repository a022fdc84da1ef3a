"""The command `tidegate band`."""

from pathlib import Path

import pyarrow as pa
import pytest

from command_line import read, run, write

LEFT = pa.table({"x": [1, 5, 9], "y": [0.5, 1.5, 2.5], "k": ["a", "b", "a"]})
RIGHT = pa.table({"z": [2, 5, 8], "y": [0.5, 1.0, 9.0], "k": ["a", "a", "a"]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(LEFT, tmp_path / "left.arrow")
    write(RIGHT, tmp_path / "right.arrow")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs(folder: Path, *options: str) -> list[tuple[int, int]]:
    result = run("band", "left.arrow", "right.arrow", *options, "--force", "-o", "out.arrow")
    assert result.exit_code == 0, result.output
    return [(row["x"], row["z"]) for row in read(folder / "out.arrow").to_pylist()]


def test_columns_and_distances(folder: Path) -> None:
    assert pairs(folder, "--on", "x=z", "--within", "1") == [(1, 2), (5, 5), (9, 8)]
    assert pairs(folder, "--on", "x=z", "--within", "0,4") == [(1, 2), (1, 5), (5, 5), (5, 8)]
    assert pairs(folder, "--on", "x=z", "--within", "none,0")[-3:] == [(9, 2), (9, 5), (9, 8)]
    assert pairs(folder, "--on", "y", "--within", "0.5") == [(1, 2), (1, 5), (5, 5)]
    both = ["--on", "x=z", "--on", "y", "--within", "4", "--within", "0.5"]
    assert pairs(folder, *both) == [(1, 2), (1, 5), (5, 5)]
    assert pairs(folder, *both[:4], "--within", "1.0") == [(1, 2), (5, 5)]


def test_other_options_reach_the_join(folder: Path) -> None:
    band = ["--on", "x=z", "--within", "1"]
    assert pairs(folder, *band, "--by", "k") == [(1, 2), (9, 8)]
    assert pairs(folder, *band, "--where", "left.y < 2") == [(1, 2), (5, 5)]
    assert pairs(folder, *band, "--by", "k", "--how", "left", "--columns", "z,x") == [
        (1, 2),
        (5, None),
        (9, 8),
    ]
    plan = run("band", "left.arrow", "right.arrow", *band, "--explain")
    assert "left.x - 1 <= right.z <= left.x + 1" in plan.output


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--on", "x=z", "--within", "none"], 2, "expected DISTANCE or BELOW,ABOVE, found 'none'"),
        (["--on", "x=z", "--within", "-1"], 1, "within must not be negative"),
        (["--on", "x=z", "--within", "1,2,3"], 1, "within: "),
        (["--on", "k", "--within", "1"], 1, "columns of these types cannot be joined by a band"),
        (["--on", "x=z", "--within", "1", "--within", "2"], 1, "within has 2 entries"),
        (["--on", "x=z", "--within", "1", "--max-rows", "1"], 1, "more than max_rows = 1"),
    ],
)
def test_what_cannot_be_joined_is_said(
    folder: Path, options: list[str], code: int, text: str
) -> None:
    result = run("band", "left.arrow", "right.arrow", *options, "-o", "out.arrow")
    assert result.exit_code == code
    assert text in result.output
    assert not (folder / "out.arrow").exists()
