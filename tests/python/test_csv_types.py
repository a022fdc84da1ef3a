"""Types of CSV columns: inferred across files, strings for codes, or set explicitly."""

import itertools
import json
import os
import random
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import campaign
import tidegate as tg
from command_line import run
from tidegate.cli.saved import Saved
from tidegate.cli.tables import Input
from tidegate.io.dialects import Dialect, type_named
from tidegate.io.files import Format
from tidegate.io.growing import Mark
from tidegate.io.open_tables import open_table

# Values of each type that pyarrow infers, as written in a file.
VALUES = {
    "empty": ["", ""],
    "whole": ["1", "-20"],
    "zero or one": ["0", "1"],
    "fraction": ["1.5", "2"],
    "truth": ["true", "false"],
    "day": ["2026-01-01", "2026-12-31"],
    "time of day": ["10:00:00", "23:59:59"],
    "second": ["2026-01-01T00:00:00", "2026-01-02 10:00:00"],
    "part of a second": ["2026-01-01T00:00:00.5", "2026-01-01T00:00:01"],
    "second with zone": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00"],
    "part with zone": ["2026-01-01T00:00:00.25Z", "2026-01-01T00:00:00Z"],
    "word": ["abc", "d e"],
    "quoted": ['""', '"x,y"'],
    "far": ["9999-12-31T00:00:00", "0001-01-01T00:00:00"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    return tmp_path


def written(folder: Path, *days: list[str]) -> Path:
    for number, values in enumerate(days):
        lines = "".join(f"{number * 10 + at},{value}\n" for at, value in enumerate(values))
        (folder / "days" / f"{number}.csv").write_text("ts,x\n" + lines)
    return folder / "days"


def in_one_file(folder: Path, *days: list[str]) -> pa.Table:
    lines = [
        f"{number * 10 + at},{value}\n"
        for number, values in enumerate(days)
        for at, value in enumerate(values)
    ]
    (folder / "one.csv").write_text("ts,x\n" + "".join(lines))
    options = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    return pyarrow.csv.read_csv(folder / "one.csv", convert_options=options)


@pytest.mark.parametrize(("first", "second"), [*itertools.product(VALUES, VALUES)])
def test_two_files_read_as_their_lines_in_one(folder: Path, first: str, second: str) -> None:
    days = VALUES[first], VALUES[second]
    found = open_table(written(folder, *days))
    rows = pa.Table.from_batches(found.read(["ts", "x"]), found.schema)
    expected = in_one_file(folder, *days)
    assert rows.schema.equals(expected.schema)
    assert rows.equals(expected)


@pytest.mark.parametrize("seed", range(campaign.tries(20)))
def test_many_files_read_as_their_lines_in_one(folder: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    kinds = chance.sample([*VALUES], chance.choice([2, 3]))
    days = [
        chance.sample(VALUES[chance.choice(kinds)], chance.randrange(3))
        for _ in range(chance.randrange(2, 6))
    ]
    found = open_table([*sorted(written(folder, *days).iterdir())])
    rows = pa.Table.from_batches(found.read(["ts", "x"]), found.schema)
    assert rows.equals(in_one_file(folder, *days))


@pytest.mark.parametrize("limit", [None, 10**9])
def test_days_of_other_types_are_aggregated(folder: Path, limit: int | None) -> None:
    days = ["2026-01-01T00:00:00,a,1\n", "2026-01-02T00:00:00.5,a,1.5\n", "2026-01-03,,\n", ""]
    for number, lines in enumerate(days):
        (folder / "days" / f"{number}.csv").write_text("t,k,x\n" + lines)
    aggs = {"n": tg.agg.count(), "x": tg.agg.sum("x")}
    found = tg.aggregate(folder / "days", on="t", size="1d", aggs=aggs, memory_limit=limit)
    assert found["x"].to_pylist() == [1.0, 1.5, None]


@pytest.mark.parametrize("files", [["days"], ["days/0.csv", "days/1.csv"]])
@pytest.mark.parametrize(
    "command",
    [
        ["merge", "--on", "ts"],
        ["aggregate", "--on", "ts", "--size", "1", "--agg", "x=last(x)"],
        ["aggregate", "--on", "ts", "--size", "1", "--agg", "x=last(x)", "--memory-limit", "1GB"],
    ],
)
def test_commands_give_the_files_of_a_table_one_type(folder: Path, command, files) -> None:
    written(folder, ["1", "2"], ["1.5"])
    result = run(*command[:1], *files, *command[1:], "-o", "out.parquet")
    assert result.exit_code == 0, result.output
    assert pq.read_table("out.parquet")["x"].to_pylist() == [1.0, 2.0, 1.5]


# Codes

CODES = ["007", '"007"', "00", "01001", " 007", "  007", "\t007", " \t 007", '"  007"']


def texts(values: list[str]) -> list[str]:
    return [value.strip('"') for value in values]


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "1GB"]])
@pytest.mark.parametrize("code", CODES)
def test_codes_keep_their_leading_zeros(folder: Path, code: str, limit: list[str]) -> None:
    values = ["10", code, "3"]
    path = written(folder, values) / "0.csv"
    count = ["--on", "ts", "--by", "x", "--size", "100", "--agg", "n=count()", *limit]
    result = run("aggregate", str(path), *count, "-o", "out.parquet")
    assert result.exit_code == 0, result.output
    assert sorted(pq.read_table("out.parquet")["x"].to_pylist()) == sorted(texts(values))


@pytest.mark.parametrize("code", CODES[1:4])
def test_a_code_is_kept_in_every_form_of_reading(folder: Path, code: str) -> None:
    path = written(folder, ["1", code]) / "0.csv"
    assert run("merge", str(path), "--on", "ts", "-o", "out.csv").exit_code == 0
    table = open_table(folder / "out.csv")
    rows = pa.Table.from_batches(table.read(["ts", "x"]), table.schema)
    assert rows["x"].to_pylist() == texts(["1", code])
    join = ["join", str(path), str(path), "--on", "ts", "--lower", "0", "--upper", "0"]
    assert run(*join, "--by", "x", "-o", "pairs.parquet").exit_code == 0
    assert pq.read_table("pairs.parquet")["x"].to_pylist() == texts(["1", code])


@pytest.mark.parametrize("value", ["0", "0.5", "10", "-0", "100", "0e1", "1.05", "20:01:05"])
def test_other_numbers_stay_numbers(folder: Path, value: str) -> None:
    table = open_table(written(folder, [value, value]) / "0.csv")
    assert table.schema.equals(in_one_file(folder, [value, value]).schema)


def test_a_day_of_codes_makes_all_days_strings(folder: Path) -> None:
    table = open_table(written(folder, ["7", "8"], ["007"]))
    rows = pa.Table.from_batches(table.read(["ts", "x"]), table.schema)
    assert rows["x"].to_pylist() == ["7", "8", "007"]


MANY = ["12345678"] * 150_000


def test_a_code_behind_the_first_block_is_an_error_and_no_other_value(folder: Path) -> None:
    written(folder, [*MANY, "007"])
    merge = ["merge", "days/0.csv", "--on", "ts"]
    refused = run(*merge, "-o", "out.parquet")
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert (
        "days/0.csv: cannot be read as csv: in line 150,002: column `x` is int64 in the first rows"
        in said
    )
    assert "'007' has a leading zero; give the type of the column: --types x=string" in said
    assert not Path("out.parquet").exists()

    assert run(*merge, "--types", "x=string", "-o", "text.parquet").exit_code == 0
    assert pq.read_table("text.parquet")["x"].to_pylist() == [*MANY, "007"]
    assert run(*merge, "--types", "x=int64", "-o", "numbers.parquet").exit_code == 0
    assert pq.read_table("numbers.parquet")["x"][-1].as_py() == 7


@pytest.mark.parametrize(("later", "kind"), [("1.5", "double"), ("abc", "string")])
def test_a_later_value_of_another_type_names_the_option(folder: Path, later: str, kind: str):
    written(folder, [*MANY, later])
    merge = ["merge", "days/0.csv", "--on", "ts"]
    said = " ".join(run(*merge, "-o", "out.parquet").stderr.split())
    assert "column `x` is int64 in the first rows" in said
    assert f"'{later}'" in said
    assert "in line 150,002: " in said
    assert f"--types x={kind} (or " in said
    assert run(*merge, "--types", f"x={kind}", "-o", "out.parquet").exit_code == 0
    assert str(pq.read_table("out.parquet")["x"][-1].as_py()) == later


# Explicit types

FOLLOW = ["--on", "ts", "--size", "10", "--agg", "x=last(x)", "--follow"]


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "1GB"]])
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("string", ["1", "2"], pa.array(["1", "2"])),
        ("double", ["1", "2"], pa.array([1.0, 2.0])),
        ("int64", ["007", "2"], pa.array([7, 2])),
        ("int", ["007", "2"], pa.array([7, 2])),
        ("float32", ["1", "2"], pa.array([1, 2], pa.float32())),
        ("bool", ["1", "0"], pa.array([True, False])),
        ("date", ["", ""], pa.array([None, None], pa.date32())),
        ("timestamp", ["2026-01-01T00:00:00", ""], pa.array([1767225600 * 10**6, None])),
        ("timestamp", ["2026-01-01T00:00:00Z", ""], pa.array([1767225600 * 10**6, None])),
        ("timestamp[ns]", ["2026-01-01", ""], pa.array([1767225600 * 10**9, None])),
        ("timestamp[ms, UTC]", ["2026-01-01T00:00:00Z", ""], pa.array([1767225600 * 1000, None])),
    ],
)
def test_the_types_of_columns_can_be_given(folder, kind, values, expected, limit) -> None:
    path = written(folder, values) / "0.csv"
    join = ["join", str(path), str(path), "--on", "ts", "--lower", "0", "--upper", "0", *limit]
    result = run(*join, "--types", f"x={kind}", "-o", "out.arrow")
    assert result.exit_code == 0, result.output
    found = pa.ipc.open_file("out.arrow").read_all()["x"].combine_chunks()
    if kind.startswith("timestamp"):
        zone = "UTC" if values[0].endswith("Z") else None
        unit = kind.partition("[")[2][:2] or "us"
        expected = expected.view(pa.timestamp(unit, zone))
    assert found.equals(expected)


ZONED_DAYS = [["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"], ["", ""]]


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "1GB"]])
@pytest.mark.parametrize("days", [ZONED_DAYS, ZONED_DAYS[::-1], [["", ""], *ZONED_DAYS]])
def test_a_plain_timestamp_gets_the_time_zone_of_any_file(folder: Path, days, limit) -> None:
    written(folder, *days)
    count = ["--on", "ts", "--size", "100", "--agg", "x=max(x)", *limit]
    result = run("aggregate", "days", *count, "--types", "x=timestamp", "-o", "out.arrow")
    assert result.exit_code == 0, result.output
    [found] = pa.ipc.open_file("out.arrow").read_all()["x"]
    assert found.type == pa.timestamp("us", "UTC")
    assert found.value == 1767312000 * 10**6


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "1GB"]])
def test_a_time_without_a_zone_is_refused_if_other_files_have_one(folder: Path, limit) -> None:
    written(folder, ZONED_DAYS[0], ["2026-01-01T00:00:00"])
    count = ["--on", "ts", "--size", "100", "--agg", "n=count(x)", *limit]
    result = run("aggregate", "days", *count, "--types", "x=timestamp", "-o", "out.arrow")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "days/1.csv: cannot be read as csv" in said
    assert "expected a zone offset" in said


def test_several_types_are_given_at_once(folder: Path) -> None:
    (folder / "a.csv").write_text("t,k,x,y\n2026-01-01T00:00:00,1,2,3\n")
    types = ["--types", "t=timestamp[ns, UTC],k=string", "--types", "x=double"]
    (folder / "a.csv").write_text("t,k,x,y\n2026-01-01T00:00:00Z,1,2,3\n")
    assert run("merge", "a.csv", "--on", "t", *types, "-o", "out.parquet").exit_code == 0
    assert pq.read_schema("out.parquet").types == [
        pa.timestamp("ns", "UTC"),
        pa.string(),
        pa.float64(),
        pa.int64(),
    ]


@pytest.mark.parametrize("column", ["t", "t=0", "t[0]", "t[a=b]"])
@pytest.mark.parametrize("kind", ["timestamp[ns, tz=UTC]", "timestamp[ns,tz=UTC]"])
def test_a_time_zone_is_given_as_pyarrow_shows_it(folder: Path, column: str, kind: str) -> None:
    (folder / "a.csv").write_text(f"{column},x\n2026-01-01T00:00:00Z,1\n")
    types = ["--types", f"{column}={kind},x=string"]
    result = run("merge", "a.csv", "--on", column, *types, "-o", "out.parquet")
    assert result.exit_code == 0, result.output
    assert pq.read_schema("out.parquet").types == [pa.timestamp("ns", "UTC"), pa.string()]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("x", "expected NAME=TYPE, found 'x'"),
        ("=string", "expected NAME=TYPE"),
        ("x=number", "'number' is not a type; give string, int64, double"),
        ("x=string,x=double", "column 'x' is specified twice"),
    ],
)
def test_a_wrong_option_is_refused(folder: Path, option: str, said: str) -> None:
    written(folder, ["1"])
    result = run("merge", "days", "--on", "ts", "--types", option, "-o", "out.csv")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    "command",
    [
        ["merge", "days/0.csv", "--on", "ts"],
        ["digest", "days/0.csv"],
        ["aggregate", "days/0.csv", "--on", "ts", "--size", "1", "--agg", "n=count()"],
        ["asof", "days/0.csv", "days/0.csv", "--on", "ts"],
    ],
)
def test_the_type_of_a_column_that_no_file_has_is_refused(folder: Path, command) -> None:
    written(folder, ["1"])
    result = run(*command, "--types", "user=string")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "--types: none of the CSV inputs has a column named `user`; " in said
    assert "; the available columns are ts, x" in said


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "1GB"]])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows", "jsonl"])
def test_the_type_of_a_column_that_only_another_format_has_is_refused(
    folder: Path, ending: str, limit: list[str]
) -> None:
    written(folder, ["1"])
    other = f"other.{ending}"
    (folder / "other.csv").write_text("ts,user\n0,7\n")
    assert run("merge", "other.csv", "--on", "ts", "-o", other).exit_code == 0
    join = ["join", "days", other, "--on", "ts", "--lower", "0", "--upper", "0", *limit]
    accepted = run(*join, "--types", "x=string", "-o", "out.arrow")
    assert accepted.exit_code == 0, accepted.output
    result = run(*join, "--types", "user=string", "-o", "refused.arrow")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "--types: none of the CSV inputs has a column named `user`; " in said
    assert "; the available columns are ts, x" in said
    result = run("digest", other, "--types", "user=string")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "--types: none of the inputs is a CSV file; omit this option" in said


def test_the_type_of_a_column_of_one_of_several_csv_inputs_is_accepted(folder: Path) -> None:
    (folder / "a.csv").write_text("ts,x\n0,7\n")
    (folder / "b.csv").write_text("ts,user\n0,7\n")
    join = ["join", "a.csv", "b.csv", "--on", "ts", "--lower", "0", "--upper", "0"]
    assert run(*join, "--types", "user=string", "-o", "out.parquet").exit_code == 0
    assert pq.read_schema("out.parquet").field("user").type == pa.string()


def test_the_type_of_a_column_of_a_followed_stream_of_arrow_is_refused(folder: Path) -> None:
    (folder / "other.csv").write_text("ts,user\n0,7\n")
    assert run("merge", "other.csv", "--on", "ts", "-o", "other.arrows").exit_code == 0
    result = run("aggregate", "other.arrows", *FOLLOW, "--types", "user=string", "-o", "out.csv")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "--types: none of the inputs is a CSV file; omit this option" in said


def test_type_names() -> None:
    assert type_named("timestamp[us,Europe/Berlin]") == pa.timestamp("us", "Europe/Berlin")
    assert type_named("timestamp[us, tz=UTC]") == pa.timestamp("us", "UTC")
    assert type_named("text") == type_named("string") == pa.string()


# Rows of any length


@pytest.mark.parametrize("limit", [None, 10**9])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_longer_than_a_block_are_read(folder: Path, ending: str, limit: int | None) -> None:
    sizes = [10, 400_000, 10, 3_000_000, 10, 9_000_000]
    path = folder / f"long.{ending}"
    with path.open("w") as file:
        if ending == "csv":
            file.write("ts,s\n")
        for number, size in enumerate(sizes):
            row = {"ts": number, "s": "x" * size}
            file.write(json.dumps(row) + "\n" if ending == "jsonl" else f"{number},{row['s']}\n")
    found = tg.aggregate(path, on="ts", size=1, aggs={"s": tg.agg.first("s")}, memory_limit=limit)
    assert [len(text) for text in found["s"].to_pylist()] == sizes


# Files that grow


# More than a single read from a pipe returns.
MIDDLE = "2,22222222\n" * 150_000


def followed(folder: Path, lines: bytes, *options: str) -> Result:
    """Aggregate the lines from a pipe whose writer closes it."""
    os.mkfifo(folder / "pipe.csv")
    writer = threading.Thread(target=lambda: (folder / "pipe.csv").write_bytes(lines))
    writer.start()
    try:
        return run("aggregate", "pipe.csv", *FOLLOW, *options, "-o", "out.csv")
    finally:
        writer.join()


@pytest.mark.skipif(os.name != "posix", reason="creates a named pipe")
@pytest.mark.parametrize("later", ["1.5", "abc", "007"])
def test_a_followed_file_of_a_later_type_can_be_declared(folder: Path, later: str) -> None:
    lines = f"ts,x\n1,1\n{MIDDLE}30,{later}\n".encode()
    kind = {"1.5": "double"}.get(later, "string")

    result = followed(folder, lines, "--types", f"x={kind}")

    assert result.exit_code == 0, result.output
    assert Path("out.csv").read_text().splitlines()[-1].split(",")[-1].strip('"') == later


@pytest.mark.skipif(os.name != "posix", reason="creates a named pipe")
@pytest.mark.parametrize("later", ["1.5", "abc", "007"])
def test_a_later_type_of_a_followed_file_names_the_option(folder: Path, later: str) -> None:
    lines = f"ts,x\n1,1\n{MIDDLE}30,{later}\n".encode()

    result = followed(folder, lines)

    said = " ".join(result.stderr.split())
    assert result.exit_code == 1
    assert "pipe.csv: cannot be read as csv: in line 150,003: " in said
    assert "column `x` is int64 in the first rows" in said
    assert f"'{later}'" in said
    assert f"--types x={'double' if later == '1.5' else 'string'} (or " in said


@pytest.mark.skipif(os.name != "posix", reason="creates a named pipe")
def test_first_lines_of_codes_are_strings(folder: Path) -> None:
    assert followed(folder, b"ts,x\n1,7\n30,007\n").exit_code == 0
    assert [line.split(",")[-1] for line in Path("out.csv").read_text().splitlines()] == [
        '"x"',
        '"7"',
        '"007"',
    ]


def test_a_state_knows_the_types_that_were_given(folder: Path) -> None:
    types = (("x", "string"), ("ts", "timestamp[us]"))
    given = Input("a.csv", Format.CSV, Dialect(types=types, of_command=True))
    plain = Input("a.csv", Format.CSV)
    schema = pa.schema([("ts", pa.int64())])
    for inputs in ((given, given), (plain, plain)):
        state = Saved("join", inputs, (), Format.CSV, schema, Mark(0, 0, 0, ""), b"snapshot")
        state.save("a.state")
        assert Saved.load("a.state").inputs == inputs
        assert (b"csv_types" in Path("a.state").read_bytes()) == (inputs[0] is given)
    # Only other types can be mended.
    state.check_inputs("a.state", "join", (given, given))
    assert state.is_mended((given, given))
    assert not state.is_mended((plain, plain))
    other = Input("a.csv", Format.CSV, Dialect(nulls=("NA",), of_command=True))
    with pytest.raises(tg.StateError, match=r"belongs to a join of a.csv .*give these files"):
        state.check_inputs("a.state", "join", (other, other))
