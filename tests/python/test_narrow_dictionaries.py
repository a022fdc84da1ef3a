"""Categories whose index type is too narrow for the values of all files together."""

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from command_line import run

COUNT = 100
INDICES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]


def day(number: int, index: pa.DataType, count: int = COUNT) -> pa.Table:
    values = pa.array([f"{number}_{place}" for place in range(count)])
    codes = pa.DictionaryArray.from_arrays(pa.array(range(count), index), values)
    return pa.table({"ts": range(number * count, (number + 1) * count), "k": codes})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, tables: list[pa.Table], ending: str = "parquet") -> list[str]:
    names = []
    (folder / "days").mkdir()
    for number, table in enumerate(tables):
        names.append(f"days/{number}.{ending}")
        if ending == "parquet":
            pq.write_table(table, names[-1])
        else:
            new = pa.ipc.new_stream if ending == "arrows" else pa.ipc.new_file
            with new(names[-1], table.schema) as writer:
                writer.write_table(table)
    return names


EXPECTED = [f"{number}_{place}" for number in range(3) for place in range(COUNT)]


def with_pyarrow(path: str) -> list[str]:
    if path.endswith(".parquet"):
        return pq.read_table(path)["k"].to_pylist()
    opened = pa.ipc.open_stream if path.endswith(".arrows") else pa.ipc.open_file
    with pa.memory_map(path) as file:
        return opened(file).read_all()["k"].to_pylist()


def with_pandas(path: str) -> list[str]:
    read = pd.read_parquet if path.endswith(".parquet") else pd.read_feather
    return read(path)["k"].tolist()


def with_polars(path: str) -> list[str]:
    reads = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "arrows": pl.read_ipc_stream}
    return reads[path.rpartition(".")[2]](path)["k"].cast(pl.String).to_list()


def with_duckdb(path: str) -> list[str]:
    if path.endswith(".parquet"):
        found = duckdb.read_parquet(path).order("ts").project("k::VARCHAR")
    else:
        table = ds.dataset(path, format="ipc").to_table()
        found = duckdb.from_arrow(table).order("ts").project("k::VARCHAR")
    return [row[0] for row in found.fetchall()]


def with_tidegate(path: str) -> list[str]:
    return tg.merge(path, on="ts")["k"].to_pylist()


READERS = [with_pyarrow, with_pandas, with_polars, with_duckdb, with_tidegate]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("out", ["out.parquet", "out.arrow", "out.arrows"])
def test_a_merge_of_days_can_be_read_by_all(folder: Path, out: str, index: pa.DataType) -> None:
    names = write(folder, [day(number, index) for number in range(3)])

    assert run("merge", *names, "--on", "ts", "-q", "-o", out).exit_code == 0

    readers = READERS if out != "out.arrows" else [with_pyarrow, with_polars, with_tidegate]
    for read in readers:
        assert read(out) == EXPECTED, read


@pytest.mark.parametrize("layout", ["parquet", "arrow", "csv"])
def test_folders_by_value_can_be_read(folder: Path, layout: str) -> None:
    tables = [
        day(number, pa.int8()).append_column("p", [["a", "b"] * (COUNT // 2)])
        for number in range(3)
    ]
    names = write(folder, tables)
    by = ["--partition-by", "p", "--format", layout]
    result = run("merge", *names, "--on", "ts", "-q", *by, "-o", "out")
    assert result.exit_code == 0, result.output
    kind = {"arrow": "ipc"}.get(layout, layout)
    found = ds.dataset("out", format=kind, partitioning="hive").to_table().sort_by("ts")
    assert found["k"].to_pylist() == EXPECTED


@pytest.mark.parametrize("how", ["full", "right"])
@pytest.mark.parametrize("out", ["out.parquet", "out.arrow"])
def test_keys_of_both_sides_can_be_read(folder: Path, out: str, how: str) -> None:
    names = write(folder, [day(0, pa.int8()), day(1, pa.int8())])
    bounds = ["--on", "ts", "--by", "k", "--lower", "0", "--upper", "0", "--how", how]
    assert run("join", *names, *bounds, "-q", "-o", out).exit_code == 0
    expected = EXPECTED[: 2 * COUNT] if how == "full" else EXPECTED[COUNT : 2 * COUNT]
    for read in (with_pyarrow, with_pandas, with_polars):
        assert sorted(read(out)) == sorted(expected), read


@pytest.mark.parametrize("limit", [None, 10**9])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("given", ["days", "list"])
@pytest.mark.parametrize("indices", [[pa.int8()] * 3, [pa.int8(), pa.int16(), pa.uint32()]])
def test_files_of_a_table_have_one_dictionary(folder: Path, given, ending, indices, limit) -> None:
    names = write(folder, [day(*one) for one in enumerate(indices)], ending)
    files = names if given == "list" else "days"
    quotes = {"ts": [0], "x": [1]}
    found = tg.asof_join(files, quotes, on="ts", columns=["ts", "k", "x"], memory_limit=limit)
    assert found["k"].to_pylist() == EXPECTED
    assert found["k"].type.index_type == pa.int32()
    counts = tg.aggregate(
        files, on="ts", by="k", size=1000, aggs={"n": tg.agg.count()}, memory_limit=limit
    )
    assert sorted(counts["k"].to_pylist()) == sorted(EXPECTED)


def test_one_file_keeps_its_type(folder: Path) -> None:
    [name] = write(folder, [day(0, pa.int8())])
    found = tg.asof_join(name, {"ts": [0], "x": [1]}, on="ts")
    # Older pyarrow releases read wider indices than were written.
    assert found["k"].type == pq.read_table(name)["k"].type


def test_an_arrow_file_keeps_a_dictionary_that_does_not_change(folder: Path) -> None:
    [name] = write(folder, [day(0, pa.int8())])
    assert run("merge", name, "--on", "ts", "-q", "-o", "out.arrow").exit_code == 0
    with pa.memory_map("out.arrow") as file:
        kept = pa.ipc.open_file(file).schema.field("k").type
    assert kept == pq.read_table(name)["k"].type


@pytest.mark.parametrize("out", ["out.parquet", "out.arrow"])
@pytest.mark.parametrize("kind", ["list", "struct"])
def test_dictionaries_inside_other_types_can_be_read(folder: Path, kind: str, out: str) -> None:
    tables = []
    for number in range(2):
        table = day(number, pa.int8())
        codes = table["k"].combine_chunks()
        nested = (
            pa.ListArray.from_arrays(pa.array(range(COUNT + 1), pa.int32()), codes)
            if kind == "list"
            else pa.StructArray.from_arrays([codes], ["s"])
        )
        tables.append(table.set_column(1, "k", nested))
    names = write(folder, tables)
    result = run("merge", *names, "--on", "ts", "-q", "-o", out)
    assert result.exit_code == 0, result.output
    found = [next(iter(row if kind == "list" else row.values())) for row in with_pyarrow(out)]
    assert found == EXPECTED[: 2 * COUNT]
