"""The command `tidegate`, mostly as a shell runs it: its output, messages and exit codes."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points, version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from cases import more
from command_line import JOIN, PAIRS, QUOTES, SECONDS, TRADES, read, read_pairs, run, write
from tidegate._tidegate import interval_join_query
from tidegate.cli import main

FLIGHTS = """departure,origin,flight
2013-01-01 05:15:00,EWR,1
2013-01-01 05:29:00,LGA,2
2013-01-01 06:00:00,JFK,3
"""
WEATHER = """observed,airport,wind
2013-01-01 05:00:00,EWR,10
2013-01-01 05:00:00,LGA,15
2013-01-01 06:30:00,JFK,9
"""


RESERVATIONS = pa.table(
    {
        "start": pa.array([10, 30], SECONDS),
        "end": pa.array([20, 35], SECONDS),
        "room": ["A", "B"],
    }
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the files that the help's examples name."""
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    pq.write_table(QUOTES, tmp_path / "quotes.parquet")
    pq.write_table(RESERVATIONS, tmp_path / "reservations.parquet")
    readings = QUOTES.rename_columns({"symbol": "room", "bid": "value"})
    pq.write_table(readings, tmp_path / "readings.parquet")
    write(TRADES, tmp_path / "trades.arrows")
    write(QUOTES, tmp_path / "quotes.arrows")
    (tmp_path / "flights.csv").write_text(FLIGHTS)
    (tmp_path / "weather.csv").write_text(WEATHER)
    for day in ("monday", "tuesday", "wednesday"):
        pq.write_table(TRADES, tmp_path / f"{day}.parquet")
        write(TRADES, tmp_path / f"{day}.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def many(folder: Path) -> int:
    """Add a file that, joined with itself without bounds, gives far too many rows to wait for."""
    rows = 60_000
    numbers = pa.array(range(rows), pa.int64())
    pq.write_table(pa.table({"ts": numbers, "x": numbers}), folder / "many.parquet")
    return rows


MANY = ["join", "many.parquet", "many.parquet", "--on", "ts", "--lower", "none", "--upper", "none"]


def leftovers(folder: Path) -> list[str]:
    """Return the names of files that are neither inputs nor expected outputs."""
    known = {"trades.parquet", "quotes.parquet", "flights.csv", "weather.csv", "many.parquet"}
    known |= {"trades.arrows", "quotes.arrows", "reservations.parquet", "readings.parquet"}
    names = {path.name for path in folder.iterdir() if "day." not in path.name}
    return sorted(names - known)


# Options of joins


def test_how_closed_where_and_suffix_reach_the_join(folder: Path) -> None:
    result = run(
        *("join", "trades.parquet", "quotes.parquet", *JOIN, "--how", "left", "--closed", "right"),
        *("--where", "left.price < right.bid", "--suffix", "_quote", "-o", "out.parquet"),
    )

    assert result.exit_code == 0, result.output
    assert read(folder / "out.parquet").to_pylist() == [
        {**trade, "ts_quote": quoted, "bid": bid}
        for trade, quoted, bid in zip(
            TRADES.to_pylist(),
            pa.array([None, None, 30, None], SECONDS).to_pylist(),
            [None, None, 4.0, None],
            strict=True,
        )
    ]


@pytest.mark.parametrize(
    ("how", "rows"),
    [("inner", 4), ("left", 5), ("right", 6), ("full", 7), ("semi", 3), ("anti", 1)],
)
def test_every_how(folder: Path, how: str, rows: int) -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, "--how", how, "-o", "out.arrow")

    assert result.exit_code == 0, result.output
    assert read(folder / "out.arrow").num_rows == rows


def test_columns_of_different_names_and_several_keys(folder: Path) -> None:
    left = pa.table({"at": [1, 2, 3], "k": ["a", "a", "b"], "n": [1, 2, 1]})
    right = pa.table({"t": [1, 2, 3], "key": ["a", "a", "b"], "n": [1, 1, 1], "y": [7, 8, 9]})
    write(left, folder / "left.arrow")
    write(right, folder / "right.arrow")

    result = run(
        *("join", "left.arrow", "right.arrow", "--on", "at=t", "--by", "k=key", "--by", "n"),
        *("--lower", "unbounded", "--upper", "1", "-o", "out.arrow"),
    )

    assert result.exit_code == 0, result.output
    assert read(folder / "out.arrow").to_pylist() == [
        {"at": 1, "k": "a", "n": 1, "t": 1, "key": "a", "y": 7},
        {"at": 1, "k": "a", "n": 1, "t": 2, "key": "a", "y": 8},
        {"at": 3, "k": "b", "n": 1, "t": 3, "key": "b", "y": 9},
    ]


@pytest.mark.parametrize("lower", [["--lower", "-5s"], ["--lower=-5s"]])
def test_negative_durations_are_values(folder: Path, lower: list[str]) -> None:
    result = run(
        *("join", "trades.parquet", "quotes.parquet", "--on", "ts", "--by", "symbol", *lower),
        *("--upper", "0s", "-o", "out.parquet"),
    )

    assert result.exit_code == 0, result.output
    assert read_pairs(folder / "out.parquet").equals(PAIRS)


def test_whole_numbers_are_in_the_unit_of_the_column(folder: Path) -> None:
    write(pa.table({"ts": [10, 20]}), folder / "left.arrow")
    write(pa.table({"ts": [7, 8, 20]}), folder / "right.arrow")

    result = run(
        *("join", "left.arrow", "right.arrow", "--on", "ts", "--lower", "-2", "--upper", "0"),
        *("-o", "out.csv"),
    )

    assert result.exit_code == 0, result.output
    assert (folder / "out.csv").read_text() == '"ts","ts_right"\n10,8\n20,20\n'


def test_threads_do_not_change_the_result(folder: Path) -> None:
    for threads in ("1", "3"):
        out = f"{threads}.arrow"
        assert (
            run(
                *(
                    "join",
                    "trades.parquet",
                    "quotes.parquet",
                    *JOIN,
                    "--threads",
                    threads,
                    "-o",
                    out,
                )
            ).exit_code
            == 0
        )

    assert read(folder / "1.arrow").equals(read(folder / "3.arrow"))


CLASHING_LEFT = pa.table({"ts": [1, 2], "k": [1, 1], "x": [3, 4], "left only": [5, 6]})
CLASHING_RIGHT = pa.table({"ts": [1, 2], "k": [1, 1], "x": [7, 8], "right only": [9, 0]})


@pytest.mark.parametrize("where", [None, "left.x < right.x", 'right."right only" = 9'])
def test_chosen_columns_are_those_of_the_whole_result(folder: Path, where: str | None) -> None:
    write(CLASHING_LEFT, folder / "left.parquet")
    write(CLASHING_RIGHT, folder / "right.parquet")
    join = ["join", "left.parquet", "right.parquet", "--on", "ts", "--by", "k", "--lower", "0"]
    join += ["--upper", "none"] + ([] if where is None else ["--where", where])

    assert run(*join, "-o", "whole.parquet").exit_code == 0
    whole = read(folder / "whole.parquet")
    assert whole.num_rows > 0
    for columns in ("x", "x_right", "ts_right,x", "k", "right only", "right only,left only,ts"):
        out = f"{columns}.parquet"
        assert run(*join, "--columns", columns, "-o", out).exit_code == 0
        assert read(folder / out).equals(whole.select(columns.split(","))), columns


def test_only_needed_columns_are_read() -> None:
    query = interval_join_query(
        on=("ts", "ts"),
        by={"k": "k"},
        lower=0,
        upper=0,
        where='left."left only" > 0',
        columns=["k", "right only"],
    )
    left, right = CLASHING_LEFT.schema, CLASHING_RIGHT.schema

    assert query.plan(left, right).needed == (
        ["ts", "k", "left only"],
        ["ts", "k", "right only"],
    )
    every = query.replace(columns=None).plan(left, right).needed
    assert every == (left.names, right.names)
    # A semi join uses the right rows but returns none of their columns.
    semi = query.replace(columns=None, how="semi").plan(left, right).needed
    assert semi == (left.names, ["ts", "k"])


def test_explain_prints_a_plan_and_writes_nothing(folder: Path) -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, "--explain", "-o", "out.csv")

    files = folder / "trades.parquet", folder / "quotes.parquet"
    plan = tidegate.explain(
        tidegate.interval_join_batches, *files, on="ts", by="symbol", lower="-5s", upper="0s"
    )
    assert "read whole" in plan
    assert (result.exit_code, result.stdout.rstrip("\n")) == (0, plan.rstrip("\n"))
    assert leftovers(folder) == []


# Messages


@pytest.mark.usefixtures("folder")
def test_summary_is_one_line() -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, "-o", "out.csv")

    counts = r"4 rows left, 6 rows right, 4 rows out, \d+\.\d\d s, [\d,]+ input rows/s"
    assert re.fullmatch(rf"tidegate: {counts}\n", result.stderr)
    assert result.stdout == ""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "bar", "summary"),
    [
        ([], False, True),
        (["--progress"], True, True),
        (["--no-progress"], False, True),
        (["--quiet"], False, False),
        (["--quiet", "--progress"], False, False),
    ],
)
def test_progress_and_quiet(options: list[str], *, bar: bool, summary: bool) -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, "-o", "out.csv", *options)

    assert result.exit_code == 0
    assert ("join: " in result.stderr) is bar
    assert ("4 rows out" in result.stderr) is summary


def test_version() -> None:
    result = run("--version")

    assert (result.exit_code, result.stdout) == (0, f"tidegate {version('tidegate')}\n")


def test_doctor_reports_versions_and_machine() -> None:
    result = run("doctor")

    assert result.exit_code == 0
    report = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())
    assert report["tidegate"] == version("tidegate")
    assert report["pyarrow"] == pa.__version__
    assert report["python"].startswith(sys.version.split()[0])
    assert {"numpy", "platform", "pyspark", "cpu features", "instructions", "threads"} < set(report)


def test_doctor_tells_that_spark_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    result = run("doctor")

    assert result.exit_code == 0
    assert re.search(r"^pyspark +cannot be imported: ", result.stdout, re.MULTILINE)


def help_examples(*command: str) -> list[str]:
    """Extract the commands of a help text: join continued lines, and drop comments."""
    text = run(*command, "--help").stdout
    examples = text[text.index("Examples:") : text.index("Exit codes:")].splitlines()[1:]
    lines = "\n".join(line.strip() for line in examples).replace("\\\n", "").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


COMMANDS: list[list[str]] = [
    [],
    ["join"],
    ["asof"],
    ["band"],
    ["aggregate"],
    ["index"],
    ["merge"],
    ["digest"],
    ["doctor"],
]
EXAMPLES = [example for command in COMMANDS for example in help_examples(*command)]


def test_examples_were_found() -> None:
    assert len(EXAMPLES) == 45
    assert all("tidegate " in example for example in EXAMPLES)


# Some help pages share examples, and each runs once.
DIFFERENT = [*dict.fromkeys(EXAMPLES)]
PIPED = [example for example in DIFFERENT if "|" in example]
# One of the examples that end in `head` shows that a shell truncates their rows.
ENDING = [example for example in PIPED if example.endswith(" --format csv | head")]
IN_SHELL = [*(example for example in PIPED if example not in ENDING), *ENDING[:1]]


@pytest.mark.parametrize("example", [one for one in DIFFERENT if one not in IN_SHELL])
def test_examples_of_the_help_run(folder: Path, example: str) -> None:
    _, *arguments = shlex.split(example.removesuffix(" | head"))
    if "--right-index" in arguments:
        tidegate.Index(QUOTES, on="ts", by="symbol").save(folder / "quotes.index")

    result = run(*arguments)

    assert result.exit_code == 0, result.output
    if arguments[0] == "index":
        assert tidegate.open_index(folder / arguments[arguments.index("-o") + 1]).rows > 0
    elif "-o" in arguments:
        assert read(folder / arguments[arguments.index("-o") + 1]).num_rows > 0
    elif example in ENDING:
        assert result.stdout.count("\n") > 1
    else:
        assert result.stdout_bytes


@pytest.mark.skipif(os.name != "posix", reason="the examples are for a POSIX shell")
@pytest.mark.parametrize("example", [*IN_SHELL, *more(*ENDING[1:])])
def test_examples_with_pipes_run_in_a_shell(folder: Path, example: str) -> None:
    script = f'tidegate() {{ "{sys.executable}" -m tidegate "$@"; }}\nset -e\n{example}\n'

    result = subprocess.run(["sh", "-c", script], capture_output=True, check=False, timeout=120)

    assert result.returncode == 0, result.stderr
    out = re.search(r"-o (\S+)", example)
    if out is None:
        assert result.stdout
    else:
        assert read(folder / out[1]).num_rows > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_lists_examples_and_exit_codes(command: list[str]) -> None:
    text = run(*command, "--help").stdout

    assert "Examples:\n    " in text
    assert "\n    130  Ctrl-C stopped" in text


# Errors


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["join", "a.parquet"], "RIGHT"),
        (["join", "a.parquet", "b.parquet", "--on", "ts", "--lower", "0"], "--upper"),
        (["join", "a.data", "b.parquet", *JOIN], "--left-format"),
        (["join", "a.csv", "b.csv", *JOIN, "--on", "a=b=c"], "COLUMN or LEFT=RIGHT"),
        (["join", "a.csv", "b.csv", *JOIN, "--by", "symbol=s"], "'symbol' is specified twice"),
        (["join", "a.csv", "b.csv", *JOIN, "--how", "outer"], "outer"),
        (["join", "a.csv", "b.csv", *JOIN, "--threads", "0"], "--threads"),
        (["join", "a.csv", "b.csv", *JOIN, "--no-such-option"], "--no-such-option"),
        (["no-such-command"], "no-such-command"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str], reason: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (["none.csv", "quotes.parquet", *JOIN], ["none.csv", "No such file or directory"]),
        (["flights.csv", "quotes.parquet", *JOIN], ["ts", "departure"]),
        (["trades.parquet", "quotes.parquet", *JOIN, "--by", "venue"], ["venue"]),
        (["trades.parquet", "quotes.parquet", *JOIN, "--columns", "offer"], ["offer"]),
        (["trades.parquet", "quotes.parquet", *JOIN, "--where", "left.offer > 1"], ["offer"]),
        (["trades.parquet", "quotes.parquet", *JOIN, "--lower", "5 parsecs"], ["5 parsecs"]),
        (["trades.parquet", "quotes.parquet", *JOIN, "--max-rows", "2"], ["max_rows", "2"]),
        (
            ["trades.parquet", "flights.csv", *JOIN, "--right-format", "parquet"],
            ["flights.csv: cannot be read as parquet"],
        ),
    ],
)
def test_errors_are_one_line_and_leave_no_file(
    folder: Path, arguments: list[str], reasons: list[str]
) -> None:
    result = run("join", *arguments, "-o", "out.parquet")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("tidegate: error: ")
    assert result.stderr.count("\n") == 1
    for reason in reasons:
        assert reason in result.stderr
    assert leftovers(folder) == []


@pytest.mark.usefixtures("folder")
def test_traceback_is_shown_when_asked_for() -> None:
    result = run("join", "none.csv", "quotes.parquet", *JOIN, "-o", "out.csv", "--traceback")

    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.splitlines()[-1].startswith("tidegate: error: none.csv: ")


@pytest.mark.usefixtures("folder")
def test_missing_folder_is_found_before_the_work() -> None:
    result = run("join", "none.csv", "none.csv", *JOIN, "-o", "nowhere/out.csv")

    assert result.exit_code == 1
    assert "the folder nowhere does not exist" in result.stderr


def test_existing_file_is_replaced_only_by_force(folder: Path) -> None:
    out = folder / "out.csv"
    out.write_text("precious")
    join = ["join", "trades.parquet", "quotes.parquet", *JOIN, "-o", "out.csv"]

    refused = run(*join)
    assert refused.exit_code == 1
    assert "out.csv exists; give --force" in refused.stderr
    assert out.read_text() == "precious"

    assert run(*join, "--force").exit_code == 0
    assert read_pairs(out).equals(PAIRS)


def test_failed_force_keeps_the_old_file(folder: Path) -> None:
    out = folder / "out.parquet"
    out.write_text("precious")

    result = run(
        *("join", "trades.parquet", "quotes.parquet", *JOIN, "--max-rows", "1"),
        *("-o", "out.parquet", "--force"),
    )

    assert result.exit_code == 1
    assert out.read_text() == "precious"
    assert leftovers(folder) == ["out.parquet"]


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_a_join_and_leaves_no_file(
    folder: Path, many: int, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "tidegate", *MANY, "-o", "out.parquet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not leftovers(folder):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

    assert many > 0
    assert process.returncode == code
    assert b"Traceback" not in said
    assert leftovers(folder) == []


@pytest.mark.skipif(os.name != "posix", reason="Windows reports a closed pipe differently")
def test_closed_pipe_ends_quietly(many: int) -> None:
    command = [sys.executable, "-m", "tidegate", *MANY, "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        head = process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert many > 0
    assert head == b'"ts","x","ts_right","x_right"\n'
    assert (process.returncode, said) == (0, b"")


# Entry points


def test_console_script_is_main() -> None:
    (script,) = entry_points(group="console_scripts", name="tidegate")

    assert script.load() is main


@pytest.mark.parametrize("library", ["typer", "tqdm"])
def test_missing_library_is_told_in_one_line(library: str) -> None:
    script = f"import sys; sys.modules['{library}'] = None\nfrom tidegate.cli import main; main()"

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    said = f"tidegate: {library} is not installed: run pip install 'tidegate[cli]'"
    assert (result.returncode, result.stderr.decode().splitlines()) == (1, [said])


def test_an_end_may_come_from_columns(folder):
    orders = pa.table({"ts": [10, 20, 30], "good_for": [5, 100, None]})
    trades = pa.table({"ts": [12, 15, 40], "price": [1.0, 2.0, 3.0]})
    write(orders, folder / "orders.arrows")
    write(trades, folder / "trades.arrows")
    ends = ["--on", "ts", "--lower", "0", "--upper", "left.good_for", "--columns", "ts,price"]

    def found() -> list[tuple[int, float]]:
        done = run("join", "orders.arrows", "trades.arrows", *ends, "-o", "out.arrow")
        assert done.exit_code == 0, done.output
        return [tuple(row.values()) for row in read(folder / "out.arrow").to_pylist()]

    assert found() == [(10, 1.0), (10, 2.0), (20, 3.0)]
    (folder / "out.arrow").unlink()
    done = run(
        *("join", "orders.arrows", "trades.arrows", *ends, "--follow", "--max-width", "50"),
        *("-o", "out.csv"),
    )
    assert done.exit_code == 0, done.output
    assert read(folder / "out.csv").to_pydict() == {"ts": [10, 10], "price": [1, 2]}
    done = run("join", "orders.arrows", "trades.arrows", *ends, "--max-width", "50", "-o", "x.csv")
    assert done.exit_code == 2
    assert "--max-width" in done.output
    assert "--follow" in done.output
