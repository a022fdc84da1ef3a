"""Creates names for temporary files and folders, and removes those that killed runs left behind.

A file that is being written is named `.tidegate-<16 hex digits>.tmp`. A folder that is being
written has the suffix `.d`. Next to the folder is a mark, a file with the suffix `.mark`. The mark
contains the stem of these names and the folder's final name. While the new folder replaces an old
one, the old folder has the suffix `.d.old`.

A run holds a lock on each file and each mark that it writes. If the run is killed, the lock is
released, and a later run in the same parent folder removes the leftovers. If the parent folder is
shared, other users can also create files with such names. Therefore, only regular files and folders
owned by the current user are touched, and links are never followed. Only a limited number of bytes
is read from a mark, and a folder is touched only if its mark is valid.
"""

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.io.locks import try_lock

FILE_SUFFIX, MARK_SUFFIX, FOLDER_SUFFIX, OLD_SUFFIX = ".tmp", ".mark", ".d", ".old"

LEFTOVER = re.compile(r"(\.tidegate-[0-9a-f]{16})(\.tmp|\.mark)")

# A file that was just created may not be locked yet.
LEFTOVER_AGE_S = 60

# The maximum length of a file name. File systems do not allow longer names.
NAME_BYTES = 1024
# The number of bytes to read from a mark. A mark that is too long can still be recognized.
MARK_BYTES = 2 * NAME_BYTES


def temporary_stem() -> str:
    """Return a unique name for a temporary file, without a suffix."""
    return f".tidegate-{secrets.token_hex(8)}"


def remove_leftovers(folder: Path) -> None:
    """Remove leftovers of killed runs from a folder, ignoring failures."""
    for name in _names(folder):
        found = LEFTOVER.fullmatch(name)
        if found is None:
            continue
        with suppress(OSError), _abandoned(folder / name) as descriptor:
            if descriptor is not None:
                if found[2] == MARK_SUFFIX:
                    _remove_folders(folder / found[1], os.read(descriptor, MARK_BYTES))
                (folder / name).unlink()


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - some names are not valid paths
    except OSError:
        # Some folders are writable but not readable.
        return []


@contextmanager
def _abandoned(path: Path) -> Iterator[int | None]:
    """Open and lock a file left behind by a killed run; yield None for any other file."""
    if not _is_own(path.lstat(), stat.S_ISREG):
        yield None
        return
    # The path may have become a link or a pipe since it was checked.
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, os.O_RDWR | careful)
    try:
        found = os.fstat(descriptor)
        is_old = time.time() - found.st_mtime > LEFTOVER_AGE_S
        is_left = is_old and _is_own(found, stat.S_ISREG) and try_lock(descriptor)
        yield descriptor if is_left and os.path.samestat(found, path.lstat()) else None
    finally:
        os.close(descriptor)


def _is_own(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Return whether a path has this file type and belongs to the current user."""
    return is_kind(found.st_mode) and (os.name != "posix" or found.st_uid == os.geteuid())


def _remove_folders(stem: Path, content: bytes) -> None:
    """Finish or undo the work of a run that was killed while it wrote or replaced a folder."""
    target = _target(stem, content)
    if target is None:
        # The mark is not valid, so the folders may contain valuable data.
        return
    made, old = folders_of(stem)
    if _is_own_folder(old):
        if not os.path.lexists(target):
            # If the new folder is missing, the old folder may be the only copy of the data.
            (made if _is_own_folder(made) else old).rename(target)
        shutil.rmtree(old, ignore_errors=True)
    if _is_own_folder(made):
        shutil.rmtree(made, ignore_errors=True)


def folders_of(stem: Path) -> tuple[Path, Path]:
    """Return the paths of the folder being written and of the folder that it replaces."""
    made = stem.with_name(stem.name + FOLDER_SUFFIX)
    return made, made.with_name(made.name + OLD_SUFFIX)


def mark_of(stem: Path, name: str) -> bytes:
    """Return the contents of the mark for a folder with the given final name."""
    return _mark_head(stem) + os.fsencode(name)


def _mark_head(stem: Path) -> bytes:
    return b"tidegate folder " + os.fsencode(stem.name) + b"\n"


def _target(stem: Path, content: bytes) -> Path | None:
    """Return the path named by a mark, in the mark's folder, or None if the mark is invalid."""
    head = _mark_head(stem)
    name = os.fsdecode(content.removeprefix(head))
    if not content.startswith(head) or len(content) > len(head) + NAME_BYTES:
        return None
    is_name = name not in {"", ".", ".."} and not set(name) & {"/", os.sep, "\0"}
    return stem.parent / name if is_name else None


def _is_own_folder(path: Path) -> bool:
    try:
        return _is_own(path.lstat(), stat.S_ISDIR)
    except OSError:
        return False
