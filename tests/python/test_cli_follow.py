"""`tidegate join --follow`: growing files, pipes, Ctrl-C, and inputs that cannot be followed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from cases import more
from command_line import (
    JOIN,
    PAIRS,
    PATIENCE,
    QUOTES,
    SECONDS,
    TRADES,
    read,
    run,
    shell,
    until,
    write,
)
from tidegate import TidegateError
from tidegate.cli.feeding import Feeder
from tidegate.io.files import Format, in_arrow_memory
from tidegate.io.followers import follow
from tidegate.io.growing import Stopped

TRADES_HEAD = "ts,symbol,price\n"
QUOTES_HEAD = "ts,symbol,bid\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, *more(signal.SIGTERM)])
def test_pairs_are_written_while_files_grow(folder, started, number):
    trades, quotes, out = (folder / name for name in ("trades.csv", "quotes.csv", "out.csv"))
    trades.write_text(TRADES_HEAD)
    quotes.write_text(QUOTES_HEAD + "1970-01-01 00:00:05,A,2.0\n")
    arguments = ["trades.csv", "quotes.csv", *JOIN, "-o", "out.csv", "--lateness", "1s"]
    process = started("join", *arguments, "--follow")
    add(trades, "1970-01-01 00:00:10,A,1.5\n")
    # The first trade is final once no quote at 10 s can arrive. An incomplete line does not count.
    add(quotes, "1970-01-01 00:00:12,A,3.0\n1970-01-01 00:0")
    add(trades, "1970-01-01 00:00:20,B,2.5\n")
    until(lambda: out.exists() and out.read_text().count("\n") == 2)
    assert out.read_text().splitlines()[1] == ('1970-01-01T00:00:10,"A",1.5,1970-01-01T00:00:05,2')
    # The completed line is at 15 s, and the trade after it is late.
    add(quotes, "0:15,B,2.25\n1970-01-01 00:00:40,B,9\n")
    add(trades, "1970-01-01 00:00:15,B,0\n1970-01-01 00:00:30,B,3.5\n")
    until(lambda: out.read_text().count("\n") == 3)
    process.send_signal(number)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 0
    assert re.fullmatch(r"tidegate: 8 rows in \(1 of them late\), 2 rows out, \S+ s\n", said)
    assert out.read_text().splitlines()[2].startswith('1970-01-01T00:00:20,"B",2.5')


def test_files_with_an_end_are_joined_to_it(folder):
    write(TRADES, folder / "trades.arrows")
    write(QUOTES, folder / "quotes.arrows")
    result = run("join", "trades.arrows", "quotes.arrows", *JOIN, "-o", "out.arrows", "--follow")
    assert result.exit_code == 0, result.output
    assert read(folder / "out.arrows").cast(PAIRS.schema).equals(PAIRS)
    assert "10 rows in, 4 rows out" in result.stderr


def test_standard_input_to_standard_output(folder):
    write(QUOTES, folder / "quotes.arrows")
    rows = "1970-01-01 00:00:10,A,1.5\n1970-01-01 00:00:30,A,3.5"
    done = shell(
        *("join", "-", "quotes.arrows", *JOIN, "--left-format", "csv", "--format", "csv"),
        *("--follow", "--columns", "price,bid", "--how", "left"),
        given=(TRADES_HEAD + rows).encode(),
    )
    assert done.stdout.decode().splitlines() == ['"price","bid"', "1.5,2", "1.5,1.25", "3.5,4"]


def test_a_plan_of_growing_files(folder):
    write(TRADES, folder / "trades.arrows")
    (folder / "quotes.csv").write_text(QUOTES_HEAD + "1970-01-01 00:00:05,A,2.0\n")
    command = ["join", "trades.arrows", "quotes.csv", *JOIN, "--follow", "--explain"]
    result = run(*command, "--lateness", "1s", "-o", "out.csv")
    assert result.exit_code == 0, result.output
    # A plan of growing inputs lists sources, like a plan of operators.
    assert "  sources    1 left, 1 right" in result.stdout.splitlines()
    assert not (folder / "out.csv").exists()


def test_a_value_of_another_type_ends_it(folder):
    write(QUOTES, folder / "quotes.arrows")
    rows = "1970-01-01 00:00:10,A,1.5\n"
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "tidegate", "join", "-", "quotes.arrows", *JOIN, "--follow"),
            *("--left-format", "csv", "-o", "out.csv"),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write((TRADES_HEAD + rows).encode())
        process.stdin.flush()
        until((folder / "out.csv").exists)
        _, said = process.communicate(b"1970-01-01 00:00:11,A,cheap\n", timeout=PATIENCE)
    assert process.returncode == 1, said
    assert b"tidegate: error: standard input: cannot be read as csv: " in said
    assert b"cheap" in said


def test_arrow_holds_no_bytes_of_python():
    # When Python exits, a thread of Arrow that frees these buffers would abort the process.
    lines = (TRADES_HEAD + "1970-01-01 00:00:10,A,1.5\n").encode()
    before = sys.getrefcount(lines)
    file = in_arrow_memory(lines)
    assert sys.getrefcount(lines) == before
    assert file.read() == lines


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["trades.arrows", "quotes.arrows", "--lateness", "1s"], "needs --follow"),
        (["trades.arrows", "quotes.arrows", "--state", "file"], "needs --follow"),
        (
            ["trades.arrows", "quotes.arrows", "--follow", "--max-rows", "5"],
            "combined with --follow",
        ),
        (
            ["trades.arrows", "quotes.arrows", "--follow", "--format", "parquet"],
            "incomplete parquet file",
        ),
    ],
)
def test_wrong_usage_is_2(folder, options, reason):
    result = run("join", *options, *JOIN, "-o", "out.csv")
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["trades.parquet", "trades.csv.gz"])
def test_what_is_read_from_its_end_cannot_be_followed(folder, name):
    write(TRADES, folder / name)
    write(QUOTES, folder / "quotes.arrows")
    result = run("join", name, "quotes.arrows", *JOIN, "--format", "csv", "--follow")
    assert result.exit_code == 1
    assert f"{name}: cannot be followed: expected an uncompressed CSV file" in result.stderr


# Growing files


def test_lines_end_where_no_quote_is_open(folder):
    path = folder / "notes.csv"
    path.write_text('ts,note\n1,"a\nb"\n2,"c\nd')
    stop = threading.Event()
    follower = follow("notes.csv", Format.CSV, stop)
    pieces = follower.pieces()
    first = next(pieces)
    # A line break follows the open quote, and the text before it is not a line either.
    assert first.rows.to_pylist() == [{"ts": 1, "note": "a\nb"}]
    assert first.end.mark.position == len(b'ts,note\n1,"a\nb"\n')
    assert first.end.lines == 3
    # A line break that is added while the quote is open ends no line either.
    add(path, "\n")
    rest = threading.Timer(0.2, add, (path, 'e"\n3,\n'))
    rest.start()
    second = next(pieces)
    rest.join()
    assert second.rows.to_pylist() == [{"ts": 2, "note": "c\nd\ne"}, {"ts": 3, "note": None}]
    assert second.end.mark.position == path.stat().st_size
    stop.set()
    with pytest.raises(Stopped):
        next(pieces)


def test_a_quote_within_a_value_opens_nothing(folder):
    path = folder / "pipes.csv"
    path.write_text('ts,note\n1,5" pipe\n2,6" pipe\n')
    follower = follow("pipes.csv", Format.CSV, threading.Event())
    assert next(follower.pieces()).rows["note"].to_pylist() == ['5" pipe', '6" pipe']


@pytest.mark.timeout(120)
def test_a_quote_that_is_never_closed_is_named(folder):
    path = folder / "rows.csv"
    path.write_text('ts,note\n1,"a\nb"\n2,x\n')
    pieces = follow("rows.csv", Format.CSV, threading.Event()).pieces()
    assert next(pieces).rows.num_rows == 2
    add(path, '3,y\n4,"a","open\n' + "5,z\n" * 100)
    assert next(pieces).rows["ts"].to_pylist() == [3]
    found = []
    reader = threading.Thread(
        target=lambda: found.extend(errors(lambda: next(pieces))), daemon=True
    )
    reader.start()
    # The quote grows in pieces. Searching from the beginning for each piece would never end.
    for _ in range(40):
        add(path, "6,zzzz\n" * 4_000)
        time.sleep(0.01)
    reader.join(PATIENCE)
    (said,) = found
    assert said == (
        "rows.csv: line 6 does not end within 1,048,576 bytes: line 6 opens a quote that is never "
        'closed; close it, or write a quote within a quoted value as ""'
    )


def errors(call):
    try:
        call()
    except TidegateError as error:
        return [str(error)]
    return []


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_one_stray_quote_keeps_nobody_from_stopping(folder, started):
    write(QUOTES, folder / "quotes.arrows")
    rows = "1970-01-01 00:00:10,A,1.5\n"
    (folder / "trades.csv").write_text(TRADES_HEAD + rows)
    process = started("join", "trades.csv", "quotes.arrows", *JOIN, "--follow", "-o", "out.csv")
    until((folder / "out.csv").exists)
    # The reader checks each of many small pieces.
    add(folder / "trades.csv", '"1970-01-01 00:00:11,A,1.5\n')
    for _ in range(100):
        add(folder / "trades.csv", rows * 100)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0, process.stderr.read()


def test_errors_of_csv_name_the_lines(folder):
    path = folder / "rows.csv"
    path.write_text("ts,x\n1,2\n2,3\n")
    pieces = follow("rows.csv", Format.CSV, threading.Event()).pieces()
    assert next(pieces).rows.num_rows == 2
    add(path, "3,4\n5,few\n")
    with pytest.raises(TidegateError, match=r"^rows.csv: cannot be read as csv: in line 5: "):
        next(pieces)


@pytest.mark.parametrize("name", ["rows.csv", "rows.arrows"])
def test_a_reading_goes_on_where_it_ended(folder, name):
    table = pa.table({"ts": pa.array([1, 2, 3, 4], SECONDS), "x": ["a", "b", "c", "d"]})
    if name.endswith("csv"):
        write(table, folder / name)
        layout, rest = Format.CSV, None
    else:
        with pa.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table[:2])
            writer.write_table(table[2:])
        layout, rest = Format.ARROW, table[2:]
    stop = threading.Event()
    follower = follow(name, layout, stop)
    piece = next(follower.pieces())
    if rest is None:
        add(folder / name, '"1970-01-01 00:00:05","e"\n')
        rest = pa.table({"ts": pa.array([5], SECONDS), "x": ["e"]})
    again = follow(name, layout, stop, place=piece.end)
    assert next(again.pieces()).rows.cast(rest.schema).equals(rest)


def test_what_is_no_table_is_named(folder):
    (folder / "rows.arrows").write_bytes(b"no arrow")
    with pytest.raises(TidegateError, match=r"^rows.arrows: expected an Arrow stream, found a"):
        follow("rows.arrows", Format.ARROW, threading.Event())
    with pytest.raises(TidegateError, match=r"^none.csv: cannot be read as csv: No such file"):
        follow("none.csv", Format.CSV, threading.Event())


def test_a_refused_thread_leaves_no_feeder_behind(folder, monkeypatch: pytest.MonkeyPatch):
    for name, table in (("trades", TRADES), ("quotes", QUOTES)):
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    begin = Feeder.start

    def start(feeder: Feeder) -> None:
        if feeder._number == 1:
            message = "can't start new thread"
            raise RuntimeError(message)
        begin(feeder)

    monkeypatch.setattr(Feeder, "start", start)
    result = run("join", "trades.csv", "quotes.csv", *JOIN, "--follow", "-o", "out.csv")
    assert "error: can't start new thread" in result.output
    left = [thread for thread in threading.enumerate() if isinstance(thread, Feeder)]
    for feeder in left:
        feeder._reading.stop.set()
    assert not left
