"""Files left by a killed run or owned by other users do not block later runs."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from command_line import PATIENCE, run
from tidegate import TidegateError
from tidegate.io.files import Format, batch_writer
from tidegate.io.leftovers import LEFTOVER_AGE_S, mark_of, remove_leftovers, temporary_stem
from tidegate.io.partitioned import partitioned_writer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals, creates links and pipes")

ROWS = pa.table({"ts": range(3), "k": ["a", "b", "a"], "x": [0.5, 1.5, 2.5]})
OUTPUTS = [
    "out.parquet",
    "out.csv",
    "out.csv.gz",
    "out.csv.zst",
    "out.jsonl",
    "out.jsonl.gz",
    "out.arrow",
    "out.arrows",
    "out/",
]

# The run kills itself after its n-th batch.
KILLED = """
import io, os, signal, sys
import tidegate.io.files as files, tidegate.io.partitioned as partitioned
import pyarrow as pa
files.ROW_GROUP_ROWS = 1000
name, layout, calls = sys.argv[1], files.Format(sys.argv[2]), int(sys.argv[3])
class Killed:
    def __init__(self, writer):
        self.writer, self.left = writer, calls
    def write_batch(self, batch):
        self.writer.write_batch(batch)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
strings = [os.urandom(40).hex() for _ in range(1000)]
batch = pa.record_batch({"ts": range(1000), "k": ["a", "b"] * 500, "x": strings})
opened = (
    partitioned.partitioned_writer(name, layout, batch.schema, ["k"])
    if name.endswith("/")
    else files.batch_writer(name, layout, batch.schema)
)
with opened as writer:
    killed = Killed(writer)
    while True:
        killed.write_batch(batch)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, tmp_path / "in.parquet")
    return tmp_path


def layout_of(out: str) -> Format:
    kinds = {"csv": Format.CSV, "jsonl": Format.JSON, "arrow": Format.ARROW, "arrows": Format.ARROW}
    return next((kinds[part] for part in out.split(".") if part in kinds), Format.PARQUET)


def age(folder: Path) -> None:
    for path in folder.glob(".tidegate-*"):
        os.utime(path, (0, 0), follow_symlinks=False)


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def write(out: str) -> None:
    command = ["join", "in.parquet", "in.parquet", "--on", "ts", "--lower", "0", "--upper", "0"]
    more = ["--partition-by", "k"] if out.endswith("/") else []
    result = run(*command, *more, "--force", "-o", out)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("out", OUTPUTS)
def test_after_a_kill_every_output_can_be_written(folder: Path, out: str) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, out, layout_of(out), str(OUTPUTS.index(out) + 1)],
        check=False,
        timeout=PATIENCE,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not Path(out).exists()
    assert hidden(folder)

    # A run that has just started may not hold its lock yet, so nothing is removed.
    left = hidden(folder)
    write("now.parquet")
    assert hidden(folder) == left

    age(folder)
    for later in ("later.parquet", "later.csv", "later/"):
        write(later)
    assert hidden(folder) == []


# Files of other users in a shared folder


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link(path: Path) -> None:
    path.symlink_to(path.parent / "precious.txt")


def folder_of(path: Path) -> None:
    path.mkdir()


def unreadable(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


MARKS = [b"", b".", b"..", b"../x", b"/etc", b"a/b", b"a\0b", b"\xff\xfe", b"n" * 2000]


def named(content: bytes):
    def make(path: Path) -> None:
        path.write_bytes(content)
        for suffix in (".d", ".d.old"):
            made = path.with_name(path.name.rpartition(".")[0] + suffix)
            made.mkdir()
            (made / "row").write_text("a row")

    make.__name__ = repr(content[:10])
    return make


@pytest.mark.parametrize("suffix", [".tmp", ".mark"])
@pytest.mark.parametrize(
    "plant",
    [pipe, endless, link, folder_of, unreadable, large, *map(named, MARKS)],
    ids=lambda plant: plant.__name__,
)
def test_what_others_leave_stops_no_run(folder: Path, plant, suffix: str) -> None:
    precious = folder / "precious.txt"
    precious.write_text("precious")
    parents = sorted(folder.parent.iterdir())
    plant(folder / (temporary_stem() + suffix))
    age(folder)

    for out in ("out.parquet", "out/"):
        write(out)

    assert precious.read_text() == "precious"
    assert sorted(folder.parent.iterdir()) == parents


@pytest.mark.parametrize("plant", [pipe, endless, link, folder_of])
def test_only_regular_files_are_removed(folder: Path, plant) -> None:
    plant(folder / (temporary_stem() + ".tmp"))
    age(folder)
    before = hidden(folder)
    remove_leftovers(folder)
    assert hidden(folder) == before


@pytest.mark.parametrize("suffixes", [[".d"], [".d.old"], [".d", ".d.old"]])
@pytest.mark.parametrize("content", [*MARKS, b"out"])
def test_folders_stay_if_no_run_wrote_their_mark(
    folder: Path, content: bytes, suffixes: list[str]
) -> None:
    stem = temporary_stem()
    left(folder, stem, content, *suffixes)
    remove_leftovers(folder)
    for suffix in suffixes:
        assert (folder / f"{stem}{suffix}" / "row").read_text() == stem + suffix


def test_folders_stay_if_their_mark_belongs_to_others(folder: Path) -> None:
    stem = temporary_stem()
    left(folder, stem, mark_of(folder / temporary_stem(), "out"), ".d")
    remove_leftovers(folder)
    assert (folder / f"{stem}.d" / "row").exists()


@pytest.mark.parametrize("content", [one for one in MARKS if one != b"\xff\xfe"])
def test_folders_stay_if_their_mark_names_no_file(folder: Path, content: bytes) -> None:
    stem = temporary_stem()
    left(folder, stem, mark_of(folder / stem, os.fsdecode(content)), ".d", ".d.old")
    remove_leftovers(folder)
    assert hidden(folder) == [f"{stem}.d", f"{stem}.d.old"]


@pytest.mark.parametrize(
    ("suffixes", "kept"),
    [([".d"], None), ([".d.old"], ".d.old"), ([".d", ".d.old"], ".d")],
)
def test_a_killed_replacement_is_finished_or_undone(
    folder: Path, suffixes: list[str], kept: str | None
) -> None:
    stem = temporary_stem()
    left(folder, stem, mark_of(folder / stem, "out"), *suffixes)
    remove_leftovers(folder)
    assert hidden(folder) == []
    if kept is None:
        assert not (folder / "out").exists()
    else:
        assert (folder / "out" / "row").read_text() == stem + kept


@pytest.mark.parametrize("suffixes", [[".d"], [".d.old"], [".d", ".d.old"]])
def test_leftovers_replace_no_folder(folder: Path, suffixes: list[str]) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "row").write_text("newer")
    stem = temporary_stem()
    left(folder, stem, mark_of(folder / stem, "out"), *suffixes)
    remove_leftovers(folder)
    assert hidden(folder) == []
    assert (folder / "out" / "row").read_text() == "newer"


def left(folder: Path, stem: str, mark: bytes, *suffixes: str) -> None:
    """Create the folders that a killed run leaves, each with a file that contains its name."""
    (folder / f"{stem}.mark").write_bytes(mark)
    for suffix in suffixes:
        (folder / f"{stem}{suffix}").mkdir()
        (folder / f"{stem}{suffix}" / "row").write_text(stem + suffix)
    age(folder)


def test_files_of_other_users_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in (".tmp", ".mark"):
        (folder / (temporary_stem() + suffix)).write_bytes(b"out")
    age(folder)
    before = hidden(folder)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    remove_leftovers(folder)
    assert hidden(folder) == before


@pytest.mark.parametrize("name", [".tidegate-00.tmp", ".tidegate-abc.mark", ".tidegate-own.tmp"])
def test_other_names_are_no_leftovers(folder: Path, name: str) -> None:
    (folder / name).write_text("own")
    age(folder)
    remove_leftovers(folder)
    assert (folder / name).read_text() == "own"


def test_a_leftover_is_never_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a mark, at most the length of a file name is read."""
    sizes = []
    read = os.read

    def noted(descriptor: int, size: int) -> bytes:
        sizes.append(size)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", noted)
    for suffix in (".tmp", ".mark"):
        large(folder / (temporary_stem() + suffix))
    age(folder)
    remove_leftovers(folder)
    assert hidden(folder) == []
    assert len(sizes) == 1
    assert sizes[0] < 1 << 12


def test_a_folder_that_cannot_be_listed_can_be_written_to(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / (temporary_stem() + ".tmp")).write_bytes(b"x")
    age(inner)
    inner.chmod(0o300)
    try:
        with batch_writer("inner/out.csv", Format.CSV, ROWS.schema) as writer:
            writer.write_batch(ROWS.to_batches()[0])
    finally:
        inner.chmod(0o700)
    assert (inner / "out.csv").exists()


def test_a_leftover_is_old_after_a_minute() -> None:
    assert LEFTOVER_AGE_S == 60


# Permissions


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o400])
@pytest.mark.parametrize("out", ["out.parquet", "out.csv.gz", "out/"])
def test_a_replaced_output_keeps_its_mode(folder: Path, out: str, mode: int) -> None:
    write(out)
    wanted = mode | 0o700 if out.endswith("/") else mode
    Path(out).chmod(wanted)
    write(out)
    assert stat.S_IMODE(Path(out).stat().st_mode) == wanted
    assert hidden(folder) == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("out", ["out.parquet", "out/"])
def test_a_new_output_has_the_mode_of_the_umask(out: str) -> None:
    before = os.umask(0o027)
    try:
        write(out)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(out).stat().st_mode) == (0o750 if out.endswith("/") else 0o640)


@pytest.mark.parametrize("out", ["out.parquet", "out/"])
def test_nobody_else_reads_what_replaces_a_private_output(folder: Path, out: str) -> None:
    write(out)
    Path(out).chmod(0o700)
    opened = (
        partitioned_writer(out, Format.PARQUET, ROWS.schema, ["k"])
        if out.endswith("/")
        else batch_writer(out, Format.PARQUET, ROWS.schema)
    )
    with opened as writer:
        writer.write_batch(ROWS.to_batches()[0])
        [made] = folder.glob(".tidegate-*.d") if out.endswith("/") else folder.glob("*.tmp")
        assert stat.S_IMODE(made.stat().st_mode) & 0o077 == 0


def replace_by_a_link(folder: Path, other: Path) -> None:
    """Rewrite a folder, but replace the new folder with a link before it is renamed."""
    with partitioned_writer("out/", Format.PARQUET, ROWS.schema, ["k"]) as writer:
        writer.write_batch(ROWS.to_batches()[0])
        writer.close()
        [made] = folder.glob(".tidegate-*.d")
        made.rename(folder / "moved")
        made.symlink_to(other)


def test_a_link_in_place_of_a_new_folder_gets_no_permissions(folder: Path) -> None:
    write("out/")
    Path("out").chmod(0o777)
    other = folder / "other"
    other.mkdir(0o700)
    with pytest.raises(TidegateError, match="out/: cannot be written as parquet"):
        replace_by_a_link(folder, other)
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    assert ds.dataset("out", partitioning="hive").to_table().num_rows == 3


def test_a_folder_of_another_user_gets_no_permissions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("out/")
    Path("out").chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with (
        pytest.raises(TidegateError, match="belongs to another user"),
        partitioned_writer("out/", Format.PARQUET, ROWS.schema, ["k"]) as writer,
    ):
        writer.write_batch(ROWS.to_batches()[0])
    assert ds.dataset("out", partitioning="hive").to_table().num_rows == 3


def test_the_target_of_a_link_keeps_its_mode(folder: Path) -> None:
    write("real.csv")
    Path("real.csv").chmod(0o600)
    Path("out.csv").symlink_to("real.csv")
    write("out.csv")
    assert Path("out.csv").is_symlink()
    assert stat.S_IMODE((folder / "real.csv").stat().st_mode) == 0o600


# Errors during the replacement of a folder


@pytest.mark.parametrize("renames", [1, 2])
def test_an_error_while_a_folder_is_replaced_keeps_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    write("out/")
    left, rename = [renames], Path.rename

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with (
        pytest.raises(TidegateError, match="out/: cannot be written as parquet: No space left"),
        partitioned_writer("out/", Format.PARQUET, ROWS.schema, ["k"]) as writer,
    ):
        writer.write_batch(ROWS.to_batches()[0].slice(0, 1))

    assert ds.dataset("out", partitioning="hive").to_table().num_rows == 3
    assert hidden(folder) == []


def without_files(folder: Path, **_: bool) -> None:
    """A removal that fails halfway."""
    for path in folder.rglob("*.parquet"):
        path.unlink()


def test_rows_survive_if_no_folder_gets_the_final_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old folder has been moved away, and neither folder can be renamed to the final name."""
    write("out/")
    renames, rename = [0], Path.rename

    def failing(self: Path, target: Path) -> Path:
        renames[0] += 1
        if renames[0] > 1:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        patched.setattr(shutil, "rmtree", without_files)
        with (
            pytest.raises(TidegateError, match="Input/output error"),
            partitioned_writer("out/", Format.PARQUET, ROWS.schema, ["k"]) as writer,
        ):
            writer.write_batch(ROWS.to_batches()[0].slice(0, 1))
    assert not Path("out").exists()

    age(folder)
    write("other.parquet")
    assert ds.dataset("out", partitioning="hive").to_table().num_rows == 1
    assert hidden(folder) == []
