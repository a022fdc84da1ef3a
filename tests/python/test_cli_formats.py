"""Commands: JSON lines, zstd, partitioned output, completion, and the progress of aggregations."""

import datetime as dt
import decimal
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from cases import grid, more
from command_line import JOIN, PAIRS, PATIENCE, QUOTES, TRADES, run, shell

PAIR_ROWS = PAIRS.to_pylist()
PARTITIONED = ["join", "trades.parquet", "quotes.parquet", *JOIN, "--partition-by", "symbol"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the two tables."""
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    pq.write_table(QUOTES, tmp_path / "quotes.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def lines(table: pa.Table) -> bytes:
    """Write JSON lines as another program would."""
    return b"".join(json.dumps(row, default=str).encode() + b"\n" for row in table.to_pylist())


def unzstd(content: bytes) -> bytes:
    return pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    return sink.getvalue().to_pybytes()


PACKED = {"": (bytes, bytes), ".gz": (gzip.compress, gzip.decompress), ".zst": (zstd, unzstd)}


# JSON lines and zstd


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "256MB"]])
@pytest.mark.parametrize("ending", PACKED)
def test_reads_json_lines(folder: Path, ending: str, limit: list[str]) -> None:
    pack, _ = PACKED[ending]
    (folder / f"left.jsonl{ending}").write_bytes(pack(lines(TRADES)))
    (folder / f"right.jsonl{ending}").write_bytes(pack(lines(QUOTES)))

    result = run(
        *("join", f"left.jsonl{ending}", f"right.jsonl{ending}", *JOIN, *limit),
        *("-o", "out.parquet"),
    )

    assert result.exit_code == 0, result.output
    assert pq.read_table(folder / "out.parquet").select(PAIRS.column_names).to_pylist() == PAIR_ROWS


@pytest.mark.parametrize("ending", PACKED)
def test_writes_json_lines(folder: Path, ending: str) -> None:
    result = run("join", *("trades.parquet", "quotes.parquet"), *JOIN, "-o", f"out.jsonl{ending}")

    assert result.exit_code == 0, result.output
    _, unpack = PACKED[ending]
    rows = [
        json.loads(line)
        for line in unpack((folder / f"out.jsonl{ending}").read_bytes()).splitlines()
    ]
    for row in rows:
        for name in ("ts", "ts_right"):
            row[name] = dt.datetime.fromisoformat(row[name])
    assert [{name: row[name] for name in PAIRS.column_names} for row in rows] == PAIR_ROWS


def test_json_lines_on_standard_streams(folder: Path) -> None:
    join = ["join", "-", "quotes.parquet", *JOIN, "--left-format", "jsonl", "--format", "jsonl"]
    result = shell(*join, given=lines(TRADES))

    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["bid"] for line in result.stdout.splitlines()] == [
        2.0,
        1.25,
        2.25,
        4.0,
    ]


@grid(unit=["s", "ms", "us", "ns"], zone=[None, "UTC"], limit=[[], ["--memory-limit", "256MB"]])
def test_times_that_are_written_are_read(folder: Path, unit: str, zone, limit: list[str]) -> None:
    times = pa.array([1_000_000_001, 2_000_000_000], pa.int64()).cast(pa.timestamp(unit, zone))
    words = pa.array(["2024", "x"])
    pq.write_table(pa.table({"ts": times, "word": words}), folder / "times.parquet")
    bounds = ["--on", "ts", "--lower", "0s", "--upper", "0s", "--how", "semi", *limit]

    for given, out in (("times.parquet", "out.jsonl"), ("out.jsonl", "again.jsonl")):
        result = run("join", given, given, *bounds, "-o", out)
        assert result.exit_code == 0, result.output
    again = run("join", "again.jsonl", "again.jsonl", *bounds, "-o", "out.parquet")

    assert again.exit_code == 0, again.output
    found = pq.read_table(folder / "out.parquet")
    assert (
        found.column("ts").cast(pa.timestamp("ns", zone)).to_pylist()
        == times.cast(pa.timestamp("ns", zone)).to_pylist()
    )
    assert found.column("word").to_pylist() == ["2024", "x"]


VALUES = pa.table(
    {
        "ts": pa.array([1, 1], pa.int64()),
        "text": ['two\nlines "and" ü', None],
        "exact": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(5, 2)),
        "day": [dt.date(2024, 1, 31), None],
        "nested": [{"a": [1, 2]}, None],
    }
)


def test_json_lines_hold_text_decimals_dates_and_nested_values(folder: Path) -> None:
    pq.write_table(VALUES, folder / "values.parquet")
    pq.write_table(VALUES.select(["ts"]).slice(0, 1), folder / "times.parquet")

    bounds = ["--on", "ts", "--lower", "0", "--upper", "0", "--how", "semi"]
    result = run("join", "values.parquet", "times.parquet", *bounds, "-o", "out.jsonl")

    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert found == [
        {
            "ts": 1,
            "text": 'two\nlines "and" ü',
            "exact": "1.50",
            "day": "2024-01-31",
            "nested": {"a": [1, 2]},
        },
        {"ts": 1, "text": None, "exact": None, "day": None, "nested": None},
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([b"x"]), "column `x`: JSON cannot represent binary; write Parquet or Arrow"),
        (pa.array([float("nan")]), "column `x`: JSON has no NaN or infinity"),
    ],
)
def test_json_lines_refuse_what_json_cannot_hold(folder: Path, values, message: str) -> None:
    pq.write_table(pa.table({"ts": [1], "x": values}), folder / "values.parquet")

    bounds = ["--on", "ts", "--lower", "0", "--upper", "0", "--how", "semi"]
    result = run("join", "values.parquet", "values.parquet", *bounds, "-o", "out.jsonl")

    assert result.exit_code == 1
    assert message in result.stderr
    assert "out.jsonl" not in names(folder)


def test_a_value_that_json_cannot_hold_is_told_beside_nanoseconds_without_pandas(
    folder: Path,
) -> None:
    times = pa.array([1], pa.timestamp("ns"))
    pq.write_table(pa.table({"ts": times, "x": [float("nan")]}), folder / "values.parquet")
    script = (
        "import sys\nfrom tidegate.cli import main\n"
        "try:\n    main()\nfinally:\n    print([*sys.modules])"
    )

    bounds = ["--on", "ts", "--lower", "0s", "--upper", "0s", "--how", "semi"]
    result = subprocess.run(
        [sys.executable, "-c", script, "join", *["values.parquet"] * 2, *bounds, "-o", "out.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, "`x`: JSON has no NaN" in result.stderr) == (1, True), result.stderr
    # Names of pyarrow modules also contain pandas.
    assert "'pyarrow.lib'" in result.stdout
    assert "'pandas'" not in result.stdout


def test_csv_through_zstd(folder: Path) -> None:
    join = ["join", "trades.parquet", "quotes.parquet", *JOIN]
    for out in ("plain.csv", "a.csv.zst", "b.csv.zst"):
        result = run(*join, "-o", out)
        assert result.exit_code == 0, result.output

    content = (folder / "a.csv.zst").read_bytes()
    assert unzstd(content) == (folder / "plain.csv").read_bytes()
    assert content == (folder / "b.csv.zst").read_bytes()
    again = run(
        "aggregate", "a.csv.zst", "--on", "ts", "--size", "1h", "--agg", "n=count()", "-o", "n.csv"
    )
    assert again.exit_code == 0, again.output
    assert (folder / "n.csv").read_text().splitlines()[1].endswith(",4")


@pytest.mark.parametrize("name", ["trades.jsonl", "trades.csv.zst"])
def test_these_files_are_not_followed(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")

    result = run("join", name, "quotes.parquet", *JOIN, "--follow", "-o", "out.csv")

    assert result.exit_code == 1
    assert (
        f"{name}: cannot be followed: expected an uncompressed CSV file or Arrow stream"
        in result.stderr
    )


def test_json_lines_are_not_written_while_files_grow(folder: Path) -> None:
    (folder / "trades.csv").write_text("ts,symbol\n")

    result = run("join", "trades.csv", "trades.csv", *JOIN, "--follow", "-o", "out.jsonl")

    assert result.exit_code == 2
    assert "--follow writes csv or arrow" in result.stderr


# Partitioned output


@pytest.mark.parametrize("layout", ["parquet", "csv", "arrow"])
def test_a_folder_for_each_value(folder: Path, layout: str) -> None:
    result = run(*PARTITIONED, "--format", layout, "-o", "out")

    assert result.exit_code == 0, result.output
    assert names(folder / "out") == ["symbol=A", "symbol=B"]
    ending = layout
    assert names(folder / "out" / "symbol=A") == [f"part-0.{ending}"]
    found = ds.dataset(folder / "out", partitioning="hive", format=layout).to_table()
    found = found.select(PAIRS.column_names).sort_by([("ts", "ascending"), ("bid", "descending")])
    assert found.to_pylist() == PAIR_ROWS
    assert names(folder) == ["out", "quotes.parquet", "trades.parquet"]


def test_what_is_written_in_folders_is_read_again(folder: Path) -> None:
    assert run(*PARTITIONED, "-o", "out/").exit_code == 0

    count = ["--on", "ts", "--size", "1h", "--by", "symbol", "--agg", "n=count()"]
    result = run("aggregate", "out", *count, "-o", "n.parquet")

    assert result.exit_code == 0, result.output
    rows = pq.read_table(folder / "n.parquet").to_pylist()
    assert [(row["symbol"], row["n"]) for row in rows] == [("A", 3), ("B", 1)]


def test_merged_and_aggregated_rows_in_folders(folder: Path) -> None:
    merge = ["merge", "trades.parquet", "trades.parquet", "--on", "ts"]
    count = ["aggregate", "trades.parquet", "--on", "ts", "--size", "1h", "--by", "symbol"]

    for command in (merge, [*count, "--agg", "n=count()"]):
        result = run(*command, "--partition-by", "symbol", "--force", "-o", "out")
        assert result.exit_code == 0, result.output
        assert names(folder / "out") == [
            "symbol=A",
            "symbol=B",
            "symbol=__HIVE_DEFAULT_PARTITION__",
        ]


def test_a_folder_is_replaced_only_if_asked_and_only_if_it_is_such_a_folder(folder: Path) -> None:
    assert run(*PARTITIONED, "-o", "out").exit_code == 0

    again = run(*PARTITIONED, "-o", "out")
    assert again.exit_code == 1
    assert "out exists; give --force to replace it" in again.stderr
    assert run(*PARTITIONED, "--where", "left.symbol = 'B'", "--force", "-o", "out").exit_code == 0
    assert names(folder / "out") == ["symbol=B"]
    (folder / "out" / "notes.txt").write_text("mine")
    refused = run(*PARTITIONED, "--force", "-o", "out")
    assert refused.exit_code == 1
    assert "out: contains more than folders such as symbol=..." in refused.stderr
    assert (folder / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--partition-by", "symbl", "-o", "out"], 1, "the result has no column `symbl`"),
        (["--partition-by", "symbol"], 2, "needs a folder; give its name"),
        (
            ["--partition-by", "symbol", "-o", "out", "--format", "jsonl"],
            2,
            "give --format parquet",
        ),
        (["--partition-by", "symbol", "-o", "none/out"], 1, "the folder none does not exist"),
        (
            ["--partition-by", "symbol", "--columns", "symbol", "-o", "out"],
            1,
            "no columns would be left",
        ),
        (
            ["--partition-by", "symbol", "--follow", "-o", "out"],
            2,
            "cannot be combined with --follow",
        ),
    ],
)
def test_wrong_partitions_are_refused(folder: Path, options, code: int, message: str) -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, *options)

    assert result.exit_code == code, result.output
    assert message in " ".join(result.stderr.split())
    assert names(folder) == ["quotes.parquet", "trades.parquet"]


def test_an_error_on_the_way_leaves_nothing(folder: Path) -> None:
    result = run(*PARTITIONED, "--max-rows", "1", "-o", "out")

    assert result.exit_code == 1
    assert names(folder) == ["quotes.parquet", "trades.parquet"]


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(("number", "left"), [(signal.SIGINT, 0), (signal.SIGKILL, 2)])
def test_a_command_that_is_ended_leaves_no_folder(folder: Path, number: int, left: int) -> None:
    rows = pa.table({"ts": pa.array([0] * 3000, pa.int64()), "k": [n % 50 for n in range(3000)]})
    pq.write_table(rows, folder / "many.parquet")
    bounds = ["--on", "ts", "--lower", "0", "--upper", "0", "--partition-by", "k"]
    command = [sys.executable, "-m", "tidegate", "join", "many.parquet", "many.parquet", *bounds]
    process = subprocess.Popen([*command, "-o", "out"], stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + PATIENCE
        while not [*folder.glob(".tidegate-*.d/k=*")]:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

    assert not (folder / "out").exists()
    leftovers = [*folder.glob(".tidegate-*")]
    assert len(leftovers) == left
    # The next run removes them if they are too old to belong to a run that has just started.
    for path in leftovers:
        os.utime(path, (0, 0))
    assert run(*PARTITIONED, "-o", "out").exit_code == 0
    assert [*folder.glob(".tidegate-*")] == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tidegate.cli import main
rename, name = Path.rename, sys.argv.pop()
def killed(self, target):
    if self.name.endswith(name):
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = killed
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(("moved", "rows"), [("out", 1), (".d", 3)])
def test_a_kill_while_a_folder_is_replaced_loses_neither(folder: Path, moved: str, rows) -> None:
    """Either the old folder keeps its name, or the next run renames the new folder to it."""
    assert run(*PARTITIONED, "--where", "left.symbol = 'B'", "-o", "out").exit_code == 0
    command = [*PARTITIONED, "--where", "left.symbol = 'A'", "--force", "-o", "out"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *command, moved], check=False, timeout=PATIENCE
    )
    assert killed.returncode == -signal.SIGKILL
    for path in folder.glob(".tidegate-*"):
        os.utime(path, (0, 0))

    assert run(*PARTITIONED, "-o", "other").exit_code == 0

    assert ds.dataset(folder / "out", partitioning="hive").to_table().num_rows == rows
    assert names(folder) == ["other", "out", "quotes.parquet", "trades.parquet"]


FULL = """
import resource, signal, sys
from tidegate.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="file size limits require POSIX")
@pytest.mark.parametrize("layout", ["parquet", *more("csv", "arrow")])
def test_a_full_disk_leaves_the_folder_that_was_there(folder: Path, layout: str) -> None:
    assert run(*PARTITIONED, "-o", "out").exit_code == 0
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*.parquet")}
    many = 20_000
    rows = pa.table({"ts": range(many), "symbol": [n % 3 for n in range(many)], "x": range(many)})
    pq.write_table(rows, folder / "many.parquet")
    bounds = ["--on", "ts", "--lower", "0", "--upper", "0", "--partition-by", "symbol", "--force"]
    command = ["join", "many.parquet", "many.parquet", *bounds, "--format", layout, "-o", "out"]
    full = subprocess.run(
        [sys.executable, "-c", FULL, "5000", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert full.returncode == 1
    [said] = full.stderr.splitlines()
    assert said.startswith(f"tidegate: error: out: cannot be written as {layout}: ")
    assert said.endswith("File too large")
    assert {path: path.read_bytes() for path in (folder / "out").rglob("*.*")} == before
    assert names(folder) == ["many.parquet", "out", "quotes.parquet", "trades.parquet"]
    assert run(*command).exit_code == 0
    assert names(folder / "out") == ["symbol=0", "symbol=1", "symbol=2"]


# Progress and completion


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "bar"), [([], False), (["--progress"], True), (["--quiet", "--progress"], False)]
)
def test_aggregations_show_progress(options: list[str], *, bar: bool) -> None:
    count = ["--on", "ts", "--size", "1h", "--agg", "n=count()"]
    result = run("aggregate", "trades.parquet", *count, *options, "-o", "out.csv")

    assert result.exit_code == 0, result.output
    assert ("aggregate: " in result.stderr) == bar


def test_the_shell_is_told_how_to_complete() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tidegate", "join", "--by"],
        env={
            **os.environ,
            "_TIDEGATE_COMPLETE": "complete_bash",
            "COMP_WORDS": "tidegate mer",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert shown.stdout.split() == ["merge"]
    assert "--install-completion" in run("--help").stdout
