"""Growing files to their ends: `--until-end`, `--flush-after`, progress, and mended types.

A run that reads files to their ends writes the rows of a run without `--follow`. A run that was
stopped by a value of another type, and resumed with `--types`, writes the rows of a run that had
these types from the beginning.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run, until
from tidegate.cli.feeding import Feeder, Reading
from tidegate.cli.progress import Progress
from tidegate.cli.saved import Saved
from tidegate.io.files import Format
from tidegate.io.followers import follow

SUM = ["--on", "ts", "--by", "k", "--size", "10", "--agg", "n=count()", "--agg", "x=last(x)"]
PAIRS = ["--on", "ts", "--by", "k", "--lower", "-5", "--upper", "0"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text_of(rows: list[tuple[object, ...]]) -> str:
    return "ts,k,x\n" + "".join(f"{ts},{k},{x}\n" for ts, k, x in rows)


def random_rows(name: str, count: int) -> list[tuple[object, ...]]:
    chance = campaign.rng(name)
    times = sorted(chance.randrange(4 * count) for _ in range(count))
    return [(ts, chance.choice("ab"), chance.randrange(100)) for ts in times]


# To the end


@pytest.mark.parametrize("seed", range(campaign.tries(8)))
@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("state", [[], ["--state", "out.state"]])
def test_to_the_end_a_file_has_all_its_windows(folder, seed: int, end: str, state) -> None:
    rows = random_rows(f"end {seed}", 40)
    Path("a.csv").write_text(text_of(rows).rstrip("\n") + end)
    followed = run("aggregate", "a.csv", *SUM, "--follow", "--until-end", *state, "-o", "out.csv")
    assert followed.exit_code == 0, followed.output
    assert run("aggregate", "a.csv", *SUM, "-o", "whole.csv").exit_code == 0
    assert Path("out.csv").read_text() == Path("whole.csv").read_text()
    assert not Path("out.state").exists()


@pytest.mark.parametrize("seed", range(campaign.tries(8)))
def test_to_the_end_two_files_have_all_their_pairs(folder, seed: int) -> None:
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text(text_of(random_rows(f"{name} {seed}", 30)))
    pairs = ["join", "a.csv", "b.csv", *PAIRS]
    assert run(*pairs, "--follow", "--until-end", "-o", "out.csv").exit_code == 0
    assert run(*pairs, "-o", "whole.csv").exit_code == 0
    assert sorted(Path("out.csv").read_text().splitlines()) == sorted(
        Path("whole.csv").read_text().splitlines()
    )


def test_to_the_end_an_arrow_stream_needs_no_end_mark(folder) -> None:
    table = pa.table({"ts": [1, 2, 30], "k": ["a", "a", "b"], "x": [1, 2, 3]})
    with pa.ipc.new_stream("a.arrows", table.schema) as writer:
        writer.write_table(table)
    content = Path("a.arrows").read_bytes()
    Path("a.arrows").write_bytes(content.removesuffix(b"\xff\xff\xff\xff\0\0\0\0"))
    assert (
        run("aggregate", "a.arrows", *SUM, "--follow", "--until-end", "-o", "o.csv").exit_code == 0
    )
    assert Path("o.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("option", [["--until-end"], ["--flush-after", "5s"]])
def test_these_options_need_follow(folder, option: list[str]) -> None:
    Path("a.csv").write_text("ts,k,x\n1,a,1\n")
    refused = run("aggregate", "a.csv", *SUM, *option)
    assert refused.exit_code == 2
    assert "needs --follow" in " ".join(refused.stderr.split())


def test_a_duration_is_needed(folder) -> None:
    Path("a.csv").write_text("ts,k,x\n1,a,1\n")
    refused = run("aggregate", "a.csv", *SUM, "--follow", "--flush-after", "soon")
    assert refused.exit_code == 2
    assert "--flush-after" in refused.stderr
    assert "expected a duration above 0, such as 10s" in " ".join(refused.stderr.split())


# Silent files


def stopped(process: subprocess.Popen[bytes]) -> str:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return errors.decode()


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_a_silent_file_gives_its_last_rows(folder, started) -> None:
    Path("a.csv").write_text("ts,k,x\n10,a,1\n20,a,2\n")
    Path("b.csv").write_text("ts,k,x\n8,a,1\n19,a,2\n20,a,3\n")
    pairs = ["join", "a.csv", "b.csv", *PAIRS, "--follow", "-o", "out.csv"]
    process = started(*pairs, "--flush-after", "300ms")
    until(lambda: Path("out.csv").exists() and Path("out.csv").read_text().count("\n") == 4)
    # A later row of the same file still counts, and an earlier one is late.
    with Path("b.csv").open("a") as file:
        file.write("25,a,4\n3,a,5\n")
    time.sleep(1)
    with Path("a.csv").open("a") as file:
        file.write("26,a,6\n")
    until(lambda: Path("out.csv").read_text().count("\n") == 5)
    errors = stopped(process)
    assert Path("out.csv").read_text().splitlines()[1:] == [
        '10,"a",1,8,1',
        '20,"a",2,19,2',
        '20,"a",2,20,3',
        '26,"a",6,25,4',
    ]
    assert "(1 of them late)" in errors


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_a_silent_file_closes_its_windows_by_the_clock(folder, started) -> None:
    Path("a.csv").write_text("ts,x\n2026-03-02T10:00:00.2Z,1\n2026-03-02T10:00:00.9Z,2\n")
    count = ["--on", "ts", "--size", "1s", "--agg", "n=count()", "--follow", "-o", "out.csv"]
    process = started("aggregate", "a.csv", *count, "--flush-after", "200ms")
    until(lambda: Path("out.csv").exists() and Path("out.csv").read_text().count("\n") == 2)
    stopped(process)
    assert Path("out.csv").read_text().splitlines()[1] == (
        "2026-03-02T10:00:00Z,2026-03-02T10:00:01Z,2"
    )


UNITS = {
    pa.int64(): 1,
    pa.uint32(): 1,
    pa.timestamp("s"): 10**9,
    pa.timestamp("ms", "UTC"): 10**6,
    pa.timestamp("ns"): 1,
    pa.date32(): 86_400 * 10**9,
}


@pytest.mark.parametrize("kind", UNITS, ids=str)
def test_the_time_of_a_silent_file_advances(folder, kind: pa.DataType) -> None:
    narrow = pa.int32() if kind == pa.date32() else pa.int64()
    table = pa.table({"ts": pa.array([5], narrow).cast(kind)})
    with pa.ipc.new_stream("a.arrows", table.schema) as writer:
        writer.write_table(table)
    reading = follow("a.arrows", Format.ARROW, Event())
    operator = tg.Merge(table.schema, sources=2)
    feeder = Feeder(operator, 0, Reading(reading, reading.begin, ["ts"], "ts", Event(), Event()))
    operator.sources[1].close()
    feeder._push(next(feeder._pieces))
    assert feeder.last_time == 5 * UNITS[kind]
    for later, number in ((False, 7), (True, 8)):
        feeder.advance(7 * UNITS[kind], later=later)
        assert operator.stats()["sources"][0]["watermark"] == number
    assert feeder.is_flushed


def test_a_file_without_any_rows_is_silent_too(folder, started) -> None:
    Path("a.csv").write_text("ts,k,x\n10,a,1\n20,a,2\n")
    Path("b.csv").write_text("ts,k,x\n")
    pairs = ["join", "a.csv", "b.csv", *PAIRS, "--how", "left", "--follow", "-o", "out.csv"]
    with pa.ipc.new_stream("b.arrows", pa.schema([("ts", pa.int64()), ("k", "string")])):
        pass
    content = Path("b.arrows").read_bytes().removesuffix(b"\xff\xff\xff\xff\0\0\0\0")
    Path("b.arrows").write_bytes(content)
    pairs[2] = "b.arrows"
    process = started(*pairs, "--flush-after", "300ms")
    until(lambda: Path("out.csv").exists() and Path("out.csv").read_text().count("\n") == 3)
    stopped(process)
    assert Path("out.csv").read_text().splitlines()[1:] == ['10,"a",1,', '20,"a",2,']


# Progress


def test_progress_names_what_is_late_behind_and_silent(folder, monkeypatch) -> None:
    Path("a.csv").write_text("ts,x\n2026-03-02T10:00:05Z,1\n2026-03-02T10:00:01Z,2\n")
    Path("b.csv").write_text("ts,x\n2026-03-02T10:00:07.5Z,1\n")
    stop = Event()
    readings = [follow(name, Format.CSV, stop) for name in ("a.csv", "b.csv")]
    operator = tg.Merge(readings[0].schema, sources=2)
    feeders = [
        Feeder(operator, at, Reading(one, one.begin, ["ts", "x"], "ts", Event(), stop))
        for at, one in enumerate(readings)
    ]
    progress = Progress(operator, feeders, shown=True)
    assert progress.line() == "0 rows in, 0 rows out; waiting for the first rows of a.csv, b.csv"
    for feeder in feeders:
        feeder.start()
    until(lambda: operator.stats()["rows_in"] == 3)
    operator.poll()
    now = 1772445611.25
    monkeypatch.setattr(time, "time", lambda: now)
    assert progress.line() == (
        "3 rows in (1 of them late), 1 rows out; final before 2026-03-02T10:00:05Z, 6.2 s behind"
    )
    feeders[1].last_rows_s -= 25
    assert progress.line().endswith("; b.csv has had no rows for 25 s")
    stop.set()
    for feeder in feeders:
        feeder.join()


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_progress_is_shown_if_it_is_asked_for(folder, monkeypatch, capsys) -> None:
    monkeypatch.setattr("tidegate.cli.progress.EVERY_S", 0.0)
    Path("a.csv").write_text("ts,k,x\n1,a,1\n12,a,2\n")
    followed = ["aggregate", "a.csv", *SUM, "--follow", "--until-end", "-o"]
    shown = run(*followed, "one.csv", "--progress").stderr
    assert "tidegate: 2 rows in" in shown
    assert shown.count("rows in") > 1
    assert run(*followed, "two.csv").stderr.count("rows in") == 1
    assert "rows in" not in run(*followed, "three.csv", "--progress", "-q").stderr


# Mended types


@pytest.mark.parametrize("seed", range(campaign.tries(10)))
@pytest.mark.parametrize("command", ["aggregate", "join"])
def test_mended_types_go_on_where_the_run_was(folder, started, seed: int, command: str) -> None:
    chance = campaign.rng(f"mended {seed}")
    rows, later = random_rows(f"mended {seed}", 30), random_rows(f"later {seed}", 10)
    last = rows[-1][0]
    later = [(last + ts, k, x) for ts, k, x in later]
    value, kind = chance.choice([("1.5", "double"), ("abc", "string"), ("007", "string")])
    at = chance.randrange(len(later))
    later[at] = (later[at][0], later[at][1], value)
    inputs, query = (["a.csv"], SUM) if command == "aggregate" else (["a.csv", "b.csv"], PAIRS)
    Path("a.csv").write_text(text_of(rows))
    Path("b.csv").write_text(text_of(random_rows(f"right {seed}", 40)))
    state = ["--follow", "--state", "out.state", "-o", "out.csv"]
    first = started(command, *inputs, *query, *state, "--checkpoint", "50ms")
    until(lambda: _has_read(inputs))
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert first.returncode == 0

    with Path("a.csv").open("a") as file:
        file.write("".join(f"{ts},{k},{x}\n" for ts, k, x in later))
    resume = [command, *inputs, *query, *state, "--until-end"]
    refused = run(*resume)
    said = " ".join(refused.stderr.split())
    assert refused.exit_code == 1
    assert f"in line {len(rows) + at + 2}: column `x` is int64" in said
    assert f"--types x={kind} (or " in said
    mended = run(*resume, "--types", f"x={kind}")
    assert mended.exit_code == 0, mended.output
    assert not Path("out.state").exists()
    types = ["--types", f"x={kind}"]
    anew = [command, *inputs, *query, *types, "--follow", "--until-end", "-o", "anew.csv"]
    assert run(*anew).exit_code == 0
    found, expected = (Path(f"{name}.csv").read_text().replace('"', "") for name in ("out", "anew"))
    assert found == expected


def _has_read(inputs: list[str]) -> bool:
    """Return whether the state includes all bytes of all inputs."""
    saved = Saved.load("out.state")
    return saved is not None and all(
        place.mark.position == Path(name).stat().st_size
        for place, name in zip(saved.places, inputs, strict=True)
    )


def interrupted(folder: Path, started, *options: str, out: str = "out.csv") -> list[str]:
    """Run a command with a state until it has read all rows, and return the command."""
    Path("a.csv").write_text("ts,k,x\n1,a,1\n12,b,2\n")
    command = ["aggregate", "a.csv", *SUM, "--follow", "--state", "out.state", "-o", out]
    process = started(*command, "--checkpoint", "50ms", *options)
    until(lambda: Path("out.state").exists() and _has_read(["a.csv"]))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    return command


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_other_options_than_types_are_not_mended(folder, started) -> None:
    command = interrupted(folder, started)
    refused = run(*command, "--until-end", "--null", "NA")
    assert "belongs to an aggregation of a.csv; give these files" in refused.stderr


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_output_with_types_is_not_mended(folder, started) -> None:
    command = interrupted(folder, started, out="out.arrows")
    refused = run(*command, "--until-end", "--types", "x=double")
    assert refused.exit_code == 1
    assert "belongs to an arrow output with" in refused.stderr


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_a_flushed_state_is_not_mended(folder, started) -> None:
    command = interrupted(folder, started, "--flush-after", "100ms")
    refused = run(*command, "--until-end", "--types", "x=double")
    assert refused.exit_code == 1
    assert "was written with --flush-after" in refused.stderr
    assert run(*command, "--until-end").exit_code == 0


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
def test_files_that_were_renamed_are_not_mended(folder, started) -> None:
    Path("a.csv").write_text("ts,k,x\n1,a,1\n")
    command = ["aggregate", "a.csv", *SUM, "--follow", "--state", "out.state", "-o", "out.csv"]
    process = started(*command, "--checkpoint", "50ms")
    until(lambda: Path("out.state").exists() and _has_read(["a.csv"]))
    Path("a.csv").rename("a.csv.1")
    Path("a.csv").write_text("ts,k,x\n12,b,2\n")
    until(lambda: b'"files"' in Path("out.state").read_bytes())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    refused = run(*command, "--until-end", "--types", "x=double")
    assert refused.exit_code == 1
    assert "includes rows of 1 earlier files with the name a.csv" in refused.stderr
    assert run(*command, "--until-end").exit_code == 0
    assert Path("out.csv").read_text().splitlines()[1:] == ['0,10,"a",1,1', '10,20,"b",1,2']


def test_times_of_a_followed_file_have_room_for_fractions(folder) -> None:
    lines = "ts,x\n" + "2026-03-02T10:00:00Z,1\n" * 60_000 + "2026-03-02T10:05:00.25Z,2\n"
    Path("a.csv").write_text(lines)
    count = ["--on", "ts", "--size", "1m", "--agg", "t=max(ts)", "--follow", "--until-end"]
    done = run("aggregate", "a.csv", *count, "-o", "out.csv")
    assert done.exit_code == 0, done.output
    assert Path("out.csv").read_text().splitlines()[-1].endswith("2026-03-02T10:05:00.25Z")


def test_times_beyond_nanoseconds_are_followed(folder) -> None:
    Path("a.csv").write_text("ts,x\n9999-12-31T00:00:00,1\n")
    count = ["--on", "ts", "--size", "1m", "--agg", "t=max(ts)", "--follow", "--until-end"]
    assert run("aggregate", "a.csv", *count, "-o", "out.csv").exit_code == 0
    assert Path("out.csv").read_text().splitlines()[-1].endswith("9999-12-31T00:00:00")


def test_parquet_parts_are_mended_if_their_columns_stay(folder, started) -> None:
    command = ["aggregate", "a.csv", "--on", "ts", "--size", "10", "--agg", "n=count()"]
    command += ["--follow", "--state", "out.state", "-o", "out/"]
    Path("a.csv").write_text("ts,k,x\n1,a,1\n12,b,2\n")
    process = started(*command, "--checkpoint", "50ms")
    until(lambda: Path("out.state").exists() and _has_read(["a.csv"]))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    with Path("a.csv").open("a") as file:
        file.write("25,c,1.5\n")
    assert run(*command, "--until-end", "--types", "x=double").exit_code == 0
    assert pq.read_table("out")["n"].to_pylist() == [1, 1, 1]
