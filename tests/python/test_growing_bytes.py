"""The bytes of a growing file: how they are read, how the file is recognized, and the messages."""

import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import StateError, TidegateError
from tidegate.io import growing
from tidegate.io.growing import EDGE_BYTES, Edges, GrowingFile, Mark, Stopped

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.name != "posix", reason="Windows cannot rename an open file"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("growing") / "file"


def content(size: int) -> bytes:
    """Return bytes that differ from position to position, the same in every run."""
    return b"".join(number.to_bytes(4, "little") for number in range(size // 4 + 1))[:size]


def write(path: Path, text: bytes) -> int:
    path.write_bytes(text)
    return os.open(path, os.O_RDONLY)


def changed(text: bytes, at: int) -> bytes:
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


@given(st.lists(st.integers(0, 3 * EDGE_BYTES), max_size=5), st.integers(0, 1_000))
def test_edges_of_bytes_that_come_in_pieces_are_those_of_the_file(scratch, sizes, more):
    edges, text = Edges(), content(sum(sizes) + more)
    for size in sizes:
        edges.add(text[edges.position : edges.position + size])
    descriptor = write(scratch, text)
    known = Edges.of(descriptor, sum(sizes))
    os.close(descriptor)
    assert (edges.position, edges.digest()) == (sum(sizes), known.digest())
    assert known.position == sum(sizes)
    assert len(edges.digest()) == 32


@pytest.mark.parametrize("size", [1, EDGE_BYTES, EDGE_BYTES + 1, 2 * EDGE_BYTES, 20_000])
def test_a_mark_is_in_a_file_with_the_same_first_and_last_bytes(folder, size):
    text = content(size)
    edges = Edges()
    edges.add(text)
    mark = Mark(size, 0, 0, edges.digest())
    cases = [(text, True), (text + b"more", True), (text[:-1], False)]
    # A change far from both ends is not detected.
    places = {0, EDGE_BYTES - 1, EDGE_BYTES, size - EDGE_BYTES - 1, size - EDGE_BYTES, size - 1}
    cases += [
        (changed(text, at), EDGE_BYTES <= at < size - EDGE_BYTES) for at in places if 0 <= at < size
    ]
    for found, wanted in cases:
        descriptor = write(folder / "file", found)
        assert mark.is_in(descriptor) is wanted
        os.close(descriptor)


def test_bytes_are_given_once_and_again_when_they_were_given_back(folder):
    Path("file").write_bytes(b"abcdefghij")
    stop = threading.Event()
    file = GrowingFile("file", stop)
    assert file.may_grow
    assert not file.closed
    assert file.position == 0
    assert file.read(3) == b"abc"
    assert file.position == 3
    file.unread(b"bc")
    file.unread(b"a")
    assert file.position == 0
    assert file.next_bytes(2) == b"ab"
    assert file.position == 2
    # Returned bytes are read again before new ones, or together with them if requested.
    assert file.read(4) == b"cdef"
    mark = file.mark()
    found = Path("file").stat()
    assert (mark.position, mark.device, mark.inode) == (6, found.st_dev, found.st_ino)
    with Path("file").open("rb") as again:
        assert mark.edges == Edges.of(again.fileno(), 6).digest()
    some = Edges()
    some.add(b"ab")
    assert (file.mark(some).position, file.mark(some).edges) == (2, some.digest())
    assert file.next_bytes() == b"ghij"
    file.unread(b"j")
    file.seek(1)
    assert (file.position, file.next_bytes(3)) == (1, b"bcd")
    assert file.next_bytes() == b"efghij"
    assert not file.has_successor
    stop.set()
    with pytest.raises(Stopped):
        file.next_bytes()
    assert file.read(0) == b""
    file.close()


def test_reading_goes_on_at_a_mark_and_a_file_is_read_in_chunks(folder, monkeypatch):
    text = content(3 * growing.CHUNK_BYTES)
    Path("file").write_bytes(text)
    file = GrowingFile("file", threading.Event())
    assert file.next_bytes() == text[: growing.CHUNK_BYTES]
    again = GrowingFile("file", threading.Event(), file.mark())
    assert again.may_grow
    again.seek(file.position)
    assert again.next_bytes(5) == text[growing.CHUNK_BYTES :][:5]
    # Checking the bytes that were read does not move the position, even if no check is needed.
    monkeypatch.delattr(os, "pread")
    descriptor = os.open("file", os.O_RDONLY)
    os.lseek(descriptor, 7, os.SEEK_SET)
    assert growing._read_at(descriptor, 100, 9) == text[100:109]
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 7
    for each in (file, again):
        each.close()
    os.close(descriptor)


def test_a_pipe_ends_where_it_is_closed(folder):
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_bytes, args=(b"abcdef",))
    writer.start()
    file = GrowingFile("pipe", threading.Event())
    assert not file.may_grow
    assert file.read(4) == b"abcd"
    writer.join()
    assert file.read(4) == b"ef"
    assert file.next_bytes() == b""
    assert not file.has_successor
    file.close()


@pytest.mark.timeout(60)
def test_a_pipe_that_nobody_writes_is_left_when_the_reading_is_stopped(folder):
    os.mkfifo("pipe")
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
        GrowingFile("pipe", stop)
    # The thread that waits for a writer also ends.
    os.close(os.open("pipe", os.O_RDWR))


def test_a_silent_pipe_is_left_when_the_reading_is_stopped(folder):
    os.mkfifo("pipe")
    descriptor = os.open("pipe", os.O_RDWR)
    stop = threading.Event()
    file = GrowingFile("pipe", stop)
    stopping = threading.Timer(0.1, stop.set)
    # This write ends a reader that does not stop.
    waking = threading.Timer(5, os.write, (descriptor, b"x"))
    stopping.start()
    waking.start()
    with pytest.raises(Stopped):
        file.next_bytes()
    waking.cancel()
    waking.join()
    file.close()
    os.close(descriptor)


def test_standard_input_is_read_and_stays_open(folder, monkeypatch):
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    kept = os.dup(0)
    try:
        os.dup2(reader, 0)
        monkeypatch.setattr("sys.stdin", os.fdopen(0, closefd=False))
        Path("-").write_bytes(b"a file")
        file = GrowingFile("-", threading.Event())
        assert not file.may_grow
        assert file.next_bytes() == b"abc"
        os.write(writer, b"de")
        file.close()
        assert os.read(0, 9) == b"de"
    finally:
        os.dup2(kept, 0)
        for descriptor in (reader, writer, kept):
            os.close(descriptor)


def test_files_that_were_read_are_closed(folder):
    def is_open(descriptor: int) -> bool:
        try:
            os.fstat(descriptor)
        except OSError:
            return False
        return True

    Path("file").write_bytes(b"a")
    file = GrowingFile("file", threading.Event())
    descriptors = [file._descriptor]
    assert file.next_bytes() == b"a"
    for text in (b"b", b"c"):
        Path("file").rename("old")
        Path("file").write_bytes(text)
        assert not file.has_successor
        assert file.next_bytes() == b""
        assert file.has_successor
        file.enter_successor()
        assert not file.has_successor
        descriptors.append(file._descriptor)
        assert (file.position, file.next_bytes()) == (0, text)
    # The previous file stays open, because it must not grow any more.
    assert [is_open(descriptor) for descriptor in descriptors] == [False, True, True]
    file.close()
    assert not any(is_open(descriptor) for descriptor in descriptors)
    file.close()
    with pytest.raises(AssertionError, match=r"please report it: file has no successor yet$"):
        file.enter_successor()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda path: os.truncate(path, 1_233), "was truncated from 1,234 bytes to 1,233"),
        (
            lambda path: path.write_bytes(b"x" * 1_235),
            "was overwritten: its first 1,234 bytes have changed",
        ),
        (Path.unlink, "was removed"),
        (lambda path: Path("other").replace(path), "was replaced by another file"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(folder, change, fault):
    path = folder / "file"
    path.write_bytes(content(1_234))
    Path("other").write_bytes(content(1_234))
    file = GrowingFile("file", threading.Event())
    assert file.read(1_234) == content(1_234)
    change(path)
    told = re.escape(f"file: {fault} while it was followed; {growing.ADVICE}")
    with pytest.raises(TidegateError, match=f"^{told}$"):
        file.next_bytes()
    file.close()


def test_bytes_behind_the_end_of_the_file_before_are_told(folder):
    Path("file").write_bytes(b"a")
    file = GrowingFile("file", threading.Event())
    assert file.next_bytes() == b"a"
    Path("file").rename("old")
    Path("file").write_bytes(b"b")
    assert file.next_bytes() == b""
    file.enter_successor()
    assert file.next_bytes() == b"b"
    with Path("old").open("ab") as old:
        old.write(b"x" * 1_000)
    wrong = "1,000 bytes were written to the previous file with this name after the new one had"
    followed = "been created while it was followed; rename"
    with pytest.raises(TidegateError, match=f"^file: {wrong} {followed}"):
        file.next_bytes()
    file.close()


def test_a_successor_may_not_be_removed_either(folder):
    Path("file").write_bytes(b"a")
    file = GrowingFile("file", threading.Event())
    assert file.next_bytes() == b"a"
    Path("file").rename("old")
    Path("file").write_bytes(b"b")
    assert file.next_bytes() == b""
    file.enter_successor()
    assert file.next_bytes() == b"b"
    Path("file").unlink()
    Path("file").write_bytes(b"c")
    with pytest.raises(TidegateError, match=r"^file: was replaced by another file"):
        file.next_bytes()
    file.close()


def test_an_empty_file_or_a_folder_of_the_name_is_no_successor(folder):
    Path("file").write_bytes(b"a")
    stop = threading.Event()
    file = GrowingFile("file", stop)
    assert file.next_bytes() == b"a"
    Path("file").rename("old")
    for make in (lambda: None, Path("file").mkdir, Path("file").touch):
        make()
        waiting = threading.Timer(3 * growing.PATIENCE_S, stop.set)
        waiting.start()
        with pytest.raises(Stopped):
            file.next_bytes()
        waiting.join()
        stop.clear()
        if Path("file").is_dir():
            Path("file").rmdir()
    # The file itself may be removed after it was seen under another name, or not found.
    Path("old").unlink()
    Path("file").write_bytes(b"b")
    assert file.next_bytes() == b""
    assert file.has_successor
    file.close()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (Path.unlink, "but the file does not exist"),
        (
            lambda path: os.truncate(path, 1_233),
            "but it is 1,233 bytes long: it was truncated or replaced",
        ),
        (
            lambda path: path.write_bytes(b"x" * 1_234),
            "but these bytes have changed: it was replaced",
        ),
    ],
)
def test_a_mark_whose_file_is_not_there_is_told(folder, change, fault):
    path = folder / "file"
    path.write_bytes(content(1_234))
    file = GrowingFile("file", threading.Event())
    file.read(1_234)
    mark = file.mark()
    file.close()
    change(path)
    told = re.escape(f"file: the state includes its first 1,234 bytes, {fault}; {growing.ANEW}")
    with pytest.raises(StateError, match=f"^{told}$"):
        GrowingFile("file", threading.Event(), mark)


def test_a_renamed_file_is_found_beside_its_name_and_beside_what_the_name_points_to(folder):
    Path("logs").mkdir()
    Path("logs/file").write_bytes(b"a")
    Path("logs/folder").mkdir()
    Path("file").symlink_to("logs/file")
    file = GrowingFile("file", threading.Event())
    assert file.next_bytes() == b"a"
    mark = file.mark()
    file.close()
    Path("logs/file").rename("logs/old")
    Path("logs/file").write_bytes(b"other")
    assert growing._renamed("file", mark) == [str(folder / "logs/old")]
    again = GrowingFile("file", threading.Event(), mark)
    assert os.fstat(again._descriptor).st_ino == mark.inode
    again.close()
    assert growing._renamed("nowhere/file", mark) == []
    of_folder = Mark(0, mark.device, Path("logs/folder").stat().st_ino, "")
    assert growing._renamed("logs/file", of_folder) == []


def test_siblings_are_named_as_logs_are_when_they_are_renamed(folder):
    siblings = ["a.b.csv.1", "a.b.csv-20260102", "a.b.csv.2026-01-02T10:00", "a.b-1.csv"]
    others = ["a.b.csv", "a.b.csv.", "a.b.csv.gz", "a.b.csv.1.gz", "a.b.csv1", "a.b1.csv"]
    for name in [*siblings, *others, "a.b-.csv", "axb-1.csv", "a.b-1xcsv", "b-1.csv"]:
        Path(name).touch()
    for name in ("a.b.csv", str(folder / "a.b.csv")):
        assert sorted(path.name for path in growing._siblings(name)) == sorted(siblings)
