"""`--state`: runs that were stopped or killed resume, and their output is that of one run.

These tests recreate the files that a kill leaves at each step of a checkpoint. `test_cli_killed.py`
kills runs at random times. A power loss is modelled as the loss of all bytes that were not synced.
Disks that report syncs they have not done are not modelled.
"""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import campaign
from command_line import PATIENCE, run, until
from following_run import (
    INPUTS,
    OUTPUTS,
    QUERIES,
    Growing,
    command,
    grown,
    rows_of,
    stopped,
    wanted,
)
from tidegate.cli import feeding, following
from tidegate.cli.checkpoints import Checkpoints, Keeping, Kept
from tidegate.cli.saved import Saved
from tidegate.cli.tables import Output
from tidegate.io.files import Format, batch_writer, format_of
from tidegate.io.followers import Piece, Place
from tidegate.io.growing import Mark
from tidegate.io.leftovers import LEFTOVER_AGE_S

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return found - set(INPUTS)


# Resumed runs


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("out", OUTPUTS)
def test_runs_that_are_stopped_give_the_output_of_one(folder, query, out):
    growing = Growing(folder)
    for _ in range(3):
        result = stopped(command(query, out), grown(folder, growing, steps=1))
        assert result.exit_code == 0, result.output
        assert (folder / "state").exists()
        # After each stop, readers find a complete file.
        rows_of(folder, out)
    growing.end()
    result = run(*command(query, out))
    assert result.exit_code == 0, result.output
    assert rows_of(folder, out) == wanted(folder, query, out)
    # Once all inputs have ended, the state is removed, and only the output remains.
    parts = {name for name in names(folder) if name.startswith("out/part-")}
    assert names(folder) == parts | {out.rstrip("/")}


class Crashes:
    """Records the files that a kill or power loss would leave before and after each disk write."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._synced: dict[tuple[int, int], bytes] = {}
        self.found: list[dict[str, bytes]] = []
        sync, replace = os.fsync, Path.replace

        def fsync(descriptor: int) -> None:
            self._note()
            sync(descriptor)
            of = os.fstat(descriptor)
            if stat.S_ISREG(of.st_mode):
                size = of.st_size
                content = Path(f"/proc/self/fd/{descriptor}").read_bytes()
                assert len(content) == size
                self._synced[of.st_dev, of.st_ino] = content
            self._note()

        def renamed(path: Path, target: Path) -> Path:
            self._note()
            found = replace(path, target)
            self._note()
            return found

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", renamed)

    def _note(self) -> None:
        killed, powerless = {}, {}
        for path in self._folder.rglob("*"):
            name = str(path.relative_to(self._folder))
            if name not in INPUTS and path.is_file():
                of = path.stat()
                killed[name] = path.read_bytes()
                powerless[name] = self._synced.get((of.st_dev, of.st_ino), b"")
        for left in (killed, powerless):
            if left not in self.found:
                self.found.append(left)

    def restore(self, left: dict[str, bytes]) -> None:
        for path in [*self._folder.rglob("*")]:
            name = str(path.relative_to(self._folder))
            if path.is_file() and name not in INPUTS and name not in left:
                path.unlink()
        for name, content in left.items():
            # Files are written in place, because a state identifies a file by its inode.
            (self._folder / name).write_bytes(content)


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="reads the files of descriptors from /proc"
)
@pytest.mark.parametrize(
    ("query", "out"), [*(("join", out) for out in OUTPUTS), ("aggregate", "out.csv")]
)
def test_a_crash_at_any_step_leaves_what_a_run_goes_on_with(folder, query, out):
    growing = Growing(folder)
    # The run writes a first checkpoint, and another one that replaces it.
    grows = grown(folder, growing, steps=3 if campaign.ALL else 1)
    with pytest.MonkeyPatch.context() as patch:
        crashes = Crashes(folder, patch)
        assert stopped(command(query, out), grows).exit_code == 0
    growing.end()
    right = wanted(folder, query, out)
    assert len(crashes.found) > 10
    for left in crashes.found:
        crashes.restore(left)
        saved, parts = Saved.load("state"), [*(folder / "out").glob("part-*.parquet")]
        # A part becomes visible only after a state counts it.
        assert len(parts) <= (saved.output.parts if parts else 0)
        result = run(*command(query, out))
        assert result.exit_code == 0, (left.keys(), result.output)
        assert rows_of(folder, out) == right, left.keys()
        assert not [name for name in names(folder) if name.endswith((".tmp", ".lock", "state"))]


def test_the_state_is_written_after_the_output(folder, monkeypatch):
    steps = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        steps.append("sync " + ("folder" if path == folder else path.name))
        sync(descriptor)

    def renamed(path, target):
        steps.append(f"rename {path.name} to {target.name}")
        return replace(path, target)

    growing = Growing(folder)
    growing.grow(40)
    growing.end()
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    assert run(*command("join", "out.csv")).exit_code == 0
    output, state = (
        ["sync out.csv", "sync folder"],
        ["sync .state.tmp", "rename .state.tmp to state"],
    )
    assert steps[:5] == [*output, *state, "sync folder"]
    # The end of the output is synced before the state is removed.
    assert steps[-1] == "sync out.csv"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_write_a_last_checkpoint(folder, started, number):
    growing = Growing(folder)
    growing.grow(200)
    process = started(*command("join", "out.csv", every="1h"))
    until(lambda: (folder / "out.csv").exists() and (folder / "out.csv").stat().st_size > 1000)
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0, process.stderr.read()
    saved = Saved.load("state")
    assert [place.mark.position for place in saved.places] == [
        (folder / name).stat().st_size for name in INPUTS
    ]
    assert saved.output.position == (folder / "out.csv").stat().st_size
    assert names(folder) == {"out.csv", "state"}


def test_a_signal_stops_the_run_while_the_main_thread_holds_the_lock_of_an_event():
    event = threading.Event()
    with following._stopped_by_signals(event):
        # Event.wait() holds the lock for a few steps at its end.
        with event._cond:
            signal.raise_signal(signal.SIGINT)
        assert event.wait(PATIENCE)


def test_a_hang_up_that_is_ignored_stops_nothing(monkeypatch):
    # nohup ignores SIGHUP.
    assert signal.SIGHUP in following._stopping()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in following._stopping()
    finally:
        signal.signal(signal.SIGHUP, before)


# Refusals


@pytest.fixture
def interrupted(folder: Path) -> Path:
    """Return a folder with a state, its output, and its inputs, which have since ended."""
    growing = Growing(folder)
    result = stopped(command("join", "out.csv"), grown(folder, growing, steps=1))
    assert result.exit_code == 0, result.output
    growing.grow(40)
    growing.end()
    return folder


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("tidegate: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("tidegate: error: ")


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_damaged_state_is_refused(interrupted):
    state, out = interrupted / "state", interrupted / "out.csv"
    whole, rows = state.read_bytes(), out.read_bytes()
    for place in [*range(0, len(whole), 97 if campaign.ALL else 499), len(whole) - 1]:
        state.write_bytes(whole)
        flip(state, place)
        said = refused(*command("join", "out.csv"))
        assert said.startswith("state: is "), place
    for size in [0, 10, 90, len(whole) // 2, len(whole) - 1]:
        state.write_bytes(whole[:size])
        assert refused(*command("join", "out.csv")).startswith("state: is ")
    assert out.read_bytes() == rows
    assert names(interrupted) == {"out.csv", "state"}


def test_a_state_of_another_version_is_refused(interrupted):
    state = interrupted / "state"
    state.write_bytes(state.read_bytes().replace(b"tidegate-state 1 ", b"tidegate-state 2 ", 1))
    assert "is a state of version '2', but this version of tidegate reads" in refused(
        *command("join", "out.csv")
    )
    state.write_bytes(b"PK\x03\x04 as states were before")
    assert "is not a state of tidegate" in refused(*command("join", "out.csv"))


def test_a_state_of_other_work_is_refused(interrupted):
    rows = (interrupted / "out.csv").read_bytes()
    join = command("join", "out.csv")
    assert "belongs to a join of left.arrows and right.arrows; give these" in refused(
        *command("aggregate", "out.csv")
    )
    assert "belongs to a join of left.arrows and right" in refused("join", *INPUTS[::-1], *join[3:])
    assert "belongs to a join" in refused(*join, "--null", "NA")
    assert "belongs to a csv output with ts (int64)" in refused(*join, "--columns", "ts")
    assert "belongs to a csv output" in refused(*command("join", "out.arrows"))
    assert "another query" in refused(*join, "--lower", "-41")
    assert "another query" in refused(*join, "--lateness", "5")
    assert "which --force would replace" in refused(*join, "--force")
    assert (interrupted / "out.csv").read_bytes() == rows


def change_first(out: Path) -> None:
    flip(out, 30)


def change_last(out: Path) -> None:
    flip(out, out.stat().st_size - 3)


def cut(out: Path) -> None:
    os.truncate(out, out.stat().st_size - 1)


def copy_and_add(out: Path) -> None:
    content = out.read_bytes()
    out.rename(out.with_name("moved"))
    out.write_bytes(content + b"somebody else's")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Path.unlink, "the state belongs to this output, but the file does not exist"),
        (change_first, "but these bytes have changed: it was replaced"),
        (change_last, "but these bytes have changed: it was replaced"),
        (cut, "it was truncated or replaced"),
        (copy_and_add, "it is a copy or a different file and has "),
    ],
)
def test_a_state_without_its_output_is_refused(interrupted, change, reason):
    out = interrupted / "out.csv"
    change(out)
    left = out.read_bytes() if out.exists() else None
    assert reason in refused(*command("join", "out.csv"))
    assert (out.read_bytes() if out.exists() else None) == left


def test_parts_that_are_not_as_they_were_are_refused(folder):
    growing = Growing(folder)
    assert stopped(command("join", "out/"), grown(folder, growing)).exit_code == 0
    growing.end()
    first = folder / "out" / "part-000000001.parquet"
    content = first.read_bytes()
    first.unlink()
    assert "out: the state includes" in refused(*command("join", "out/"))
    first.write_bytes(content + b"more")
    assert "some of them are missing or have changed" in refused(*command("join", "out/"))
    first.write_bytes(content)
    assert run(*command("join", "out/")).exit_code == 0
    assert rows_of(folder, "out/") == wanted(folder, "join", "out/")


@pytest.mark.parametrize("name", ["left.arrows", "right.arrows"])
def test_a_replaced_input_is_refused(interrupted, name):
    # The other file has the same layout, and is long enough to resume in its middle.
    path = interrupted / name
    other = pa.ipc.open_stream(path.read_bytes()).read_all()
    other = other.set_column(2, "v", pa.array([float(n) for n in range(other.num_rows)]))
    path.rename(interrupted / "elsewhere.arrows")
    (interrupted / "elsewhere.arrows").unlink()
    with pa.ipc.new_stream(path, other.schema) as writer:
        writer.write_table(other, max_chunksize=40)
        writer.write_table(other, max_chunksize=40)
    said = refused(*command("join", "out.csv"))
    assert said.startswith(f"{name}: the state includes its first ")
    assert "but these bytes have changed: it was replaced" in said


def test_two_runs_with_one_state_are_refused(folder, started):
    growing = Growing(folder)
    growing.grow(40)
    process = started(*command("join", "out.csv"))
    until((folder / "state").exists)
    (folder / "linked").symlink_to("state")
    for state in ("state", "linked"):
        arguments = [(state if one == "state" else one) for one in command("join", "other.csv")]
        assert f"{state}: is in use by another run" in refused(*arguments)
    (folder / "linked").unlink()
    # A kill releases the lock.
    process.kill()
    process.wait(PATIENCE)
    growing.end()
    assert run(*command("join", "out.csv")).exit_code == 0
    assert rows_of(folder, "out.csv") == wanted(folder, "join", "out.csv")
    assert names(folder) == {"out.csv"}


def test_a_state_that_cannot_be_written_is_an_error_at_the_start(folder):
    Growing(folder).end()
    arguments = command("join", "out.csv")
    (folder / "state").mkdir()
    assert "state: is not a file" in refused(*arguments)
    (folder / "state").rmdir()
    nowhere = [("nowhere/state" if one == "state" else one) for one in arguments]
    assert "nowhere/state: cannot be used: No such file or directory" in refused(*nowhere)
    for name in ("left.arrows", "out.csv"):
        assert "choose another file for --state" in refused(
            *[(name if one == "state" else one) for one in arguments]
        )
    assert names(folder) == set()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (command("join", "-"), "standard output: --state needs a file as OUT"),
        (command("join", "out.pipe", "--format", "csv"), "out.pipe: --state needs a file as OUT"),
        (command("join", "out.csv.gz"), "--state writes CSV uncompressed"),
    ],
)
def test_what_cannot_be_taken_back_is_refused(folder, arguments, reason):
    Growing(folder).end()
    os.mkfifo("out.pipe")
    assert reason in refused(*arguments, *([] if "--format" in arguments else ["--format", "csv"]))


def test_a_pipe_cannot_be_read_again(folder):
    Growing(folder).end()
    os.mkfifo("in.pipe")
    for name in ("-", "in.pipe"):
        arguments = command("join", "out.csv", "--left-format", "arrow")
        arguments[1] = name
        assert "--state needs files, and a pipe cannot be read again" in refused(*arguments)


def test_an_output_that_is_there_is_replaced_only_by_force(folder):
    growing = Growing(folder)
    growing.grow(10)
    growing.end()
    (folder / "out.csv").write_text("precious")
    (folder / "out").mkdir()
    (folder / "out" / "precious").write_text("precious")
    assert "out.csv exists; give --force" in refused(*command("join", "out.csv"))
    assert "out already has files, such as precious" in refused(*command("join", "out/"))
    assert "precious" in refused(*command("join", "out/", "--force"))
    assert (folder / "out.csv").read_text() == "precious"
    assert names(folder) == {"out.csv", "out", "out/precious"}
    assert run(*command("join", "out.csv", "--force")).exit_code == 0
    assert rows_of(folder, "out.csv") == wanted(folder, "join", "out.csv")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--checkpoint", "10s"], "needs --state"),
        (["--state", "s", "--checkpoint", "soon"], "expected a duration above 0"),
        (["--state", "s", "--checkpoint", "0s"], "expected a duration above 0"),
        (["-o", "out/"], "a folder can only be written as parquet, with --follow"),
        (
            ["-o", "out/", "--state", "s", "--format", "csv"],
            "a folder can only be written as parquet",
        ),
    ],
)
def test_wrong_usage_is_2(folder, options, reason):
    result = run("join", *INPUTS, *QUERIES["join"], "--follow", "-o", "out.csv", *options)
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


# Full and broken disks


@pytest.mark.parametrize("out", OUTPUTS)
def test_a_failing_sync_ends_the_run_and_the_next_goes_on(folder, monkeypatch, out):
    growing = Growing(folder)
    growing.grow(400)
    growing.end()
    right = wanted(folder, "join", out)
    sync, calls, failed = os.fsync, 0, 0
    for failing in range(30):
        calls = 0

        def fsync(descriptor: int, failing: int = failing) -> None:
            nonlocal calls
            calls += 1
            if calls > failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        result = run(*command("join", out))
        monkeypatch.setattr(os, "fsync", sync)
        if result.exit_code == 0:
            break
        failed += 1
        assert "Input/output error" in result.stderr
        assert result.stderr.count("\n") == 1
        assert not [name for name in names(folder) if name.endswith((".lock", "state.tmp"))]
    assert failed > 4
    assert rows_of(folder, out) == right


FULL = """
import resource, signal, sys
from tidegate.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.mark.parametrize("out", ["out.csv", "out/"])
def test_a_full_disk_ends_the_run_and_the_next_goes_on(folder, out):
    growing = Growing(folder)
    growing.grow(2_000)
    growing.end()
    arguments = command("join", out)
    full = subprocess.run(
        [sys.executable, "-c", FULL, "5000", *arguments],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert full.returncode == 1
    said = full.stderr.decode()
    assert said.startswith("tidegate: error: ")
    assert said.endswith(": File too large\n")
    assert said.count("\n") == 1
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert rows_of(folder, out) == wanted(folder, "join", out)


# Leftovers of a kill


def test_temporary_files_that_a_kill_left_are_removed(folder):
    old, new, locked = (folder / f".tidegate-{digit * 16}.tmp" for digit in "0af")
    for path in (old, new, locked):
        path.write_bytes(b"half")
    for path in (old, locked):
        os.utime(path, (0, path.stat().st_mtime - 2 * LEFTOVER_AGE_S))
    batch = pa.record_batch({"x": pa.array([1])})
    script = (
        "import sys, time; from tidegate.io.locks import try_lock\n"
        "file = open(sys.argv[1], 'rb+')\n"
        "assert try_lock(file.fileno()); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(locked)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with batch_writer("out.csv", format_of("out.csv"), batch.schema) as writer:
            writer.write_batch(batch)
        assert names(folder) == {"out.csv", new.name, locked.name}
        holder.communicate(b"", timeout=PATIENCE)


# Checkpoints during pushes


class Pushed:
    """An operator of one source, which records the calls it receives."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.sources = [self]
        self.schema = pa.schema({"x": pa.int64()})
        self.feeder: feeding.Feeder | None = None

    def push(self, _rows: pa.Table) -> None:
        assert self.feeder is not None
        self.calls.append("push with lock" if self.feeder.pushing.locked() else "push")

    def late(self) -> None:
        self.calls.append("late")

    def poll(self) -> None:
        self.calls.append("poll")

    def snapshot(self) -> bytes:
        self.calls.append("snapshot")
        return b""

    def close(self) -> None:
        self.calls.append("close")

    def stats(self) -> dict[str, object]:
        return {"watermark": 0, "sources": [{"watermark": None, "closed": False}]}


def test_a_checkpoint_waits_for_pushes_and_their_places(folder):
    operator, stop = Pushed(), threading.Event()
    end = Place(Mark(9, 1, 2, "edges"), operator.schema)
    pieces = [Piece(pa.table({"x": [1]}), end)]
    follower = SimpleNamespace(pieces=lambda: iter(pieces), schema=pieces[0].rows.schema)
    feeder = feeding.Feeder(
        operator, 0, feeding.Reading(follower, None, ["x"], "x", threading.Event(), stop)
    )
    operator.feeder = feeder
    feeder.run()
    assert feeder.failure is None
    assert operator.calls == ["push with lock", "late", "close"]
    assert feeder.place == end
    operator.calls.clear()
    output = Output("out.csv", Format.CSV, force=False)
    kept = Kept(Keeping("state", 10), "join", (), output, None)
    live = SimpleNamespace(
        prepare=lambda: end.mark, publish=lambda: operator.calls.append("publish")
    )
    checkpoints = Checkpoints(kept, operator, [feeder], live)
    writing = threading.Thread(target=checkpoints.write)
    with feeder.pushing:
        writing.start()
        writing.join(0.2)
        assert operator.calls == []
    writing.join(PATIENCE)
    assert operator.calls == ["poll", "snapshot", "publish"]
    assert Saved.load("state").places == (end,)
    # Without changes, nothing is written again.
    checkpoints.write()
    assert operator.calls == ["poll", "snapshot", "publish", "poll"]
