"""`--partition-by`: values in folder names are read back unchanged, or refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from command_line import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(values: list[object], name: str = "p", layout: str = "parquet"):
    rows = pa.table({"ts": range(len(values)), name: values, "x": range(len(values))})
    pq.write_table(rows, "in.parquet")
    by = ["--partition-by", name, "--format", layout]
    return run("merge", "in.parquet", "--on", "ts", "-q", *by, "-o", "out")


def read_back(name: str = "p") -> list[object]:
    found = tg.asof_join("out", {"ts": [0], "y": [1]}, on="ts", columns=["x", name])
    return found.sort_by("x")[name].to_pylist()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("layout", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "values",
    [
        ["01", "1", "007"],
        ["01"],
        ["0", "00"],
        ["1e5", "x"],
        ["+1"],
        [" 1"],
        ["-0"],
        ["99999999999"],
        ["2147483648"],
        ["a/b", "c=d", "e%2Ff", "ü", "a b", ".", ".."],
        [None, None],
        [None, "a"],
        [None, 7],
        [1, -20, 2147483647],
        ["A", "a"],
    ],
    ids=repr,
)
def test_values_are_read_back_as_they_were(values: list[object], layout: str) -> None:
    result = written(values, layout=layout)
    assert result.exit_code == 0, result.output
    assert read_back() == values


@pytest.mark.usefixtures("folder")
def test_strings_of_whole_numbers_are_read_back_as_numbers() -> None:
    """Folder names do not distinguish strings from numbers."""
    assert written(["1", "20"]).exit_code == 0
    assert read_back() == [1, 20]


@pytest.mark.parametrize(
    "values", [["\0a", "", "\0b"], ["a", "b\0"], ["a", "__HIVE_DEFAULT_PARTITION__"]]
)
@pytest.mark.parametrize("is_coded", [False, True])
def test_values_that_no_folder_can_have_are_refused(folder: Path, values, is_coded) -> None:
    given = pa.array(values).dictionary_encode() if is_coded else values
    result = written(given)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "--partition-by: column `p` has the value '" in said
    assert "which no folder name can represent; exclude such rows with --where" in said
    assert sorted(path.name for path in folder.iterdir()) == ["in.parquet"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("codes", [[0, 2, None], [None, None]])
def test_values_of_a_dictionary_that_no_row_has_are_not_refused(codes: list[int | None]) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), ["a", "\0", "b"])
    assert written(values).exit_code == 0
    assert read_back() == values.to_pylist()


@pytest.mark.parametrize("name", ["_p", ".p", "p=q", "p/q"])
def test_columns_whose_folders_nobody_finds_are_refused(folder: Path, name: str) -> None:
    result = written(["a"], name)
    assert result.exit_code == 1
    assert f"readers would not recognize folders named after column `{name}`" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["in.parquet"]


def test_there_may_be_many_values(folder: Path) -> None:
    values = [f"v{number}" for number in range(1500)]
    result = written([*values, *values])
    assert result.exit_code == 0, result.output
    assert len([*(folder / "out").iterdir()]) == 1500
    assert ds.dataset(folder / "out", partitioning="hive").count_rows() == 3000
