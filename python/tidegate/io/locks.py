"""Locks on files, which the operating system releases when their holder is killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate import StateError

if os.name == "posix":
    import fcntl
else:
    import msvcrt


def try_lock(descriptor: int) -> bool:
    """Lock an open file, unless another process holds it, or its file system knows no locks."""
    try:
        if os.name == "posix":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return False
    return True


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock that is the file `path`, which is there only for that.

    Raises:
        StateError: Another run holds it; the text says so of `what`.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if not try_lock(descriptor):
            os.close(descriptor)
            message = (
                f"{what}: another run is going on with it (it has locked {path}); stop that run, "
                "or give another state and another OUT"
            )
            raise StateError(message)
        # The run that held it before may have removed it since it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                break
        os.close(descriptor)
    try:
        yield
    finally:
        # Removed while it is held, where a file that is open can be removed.
        if os.name == "posix":
            path.unlink(missing_ok=True)
        os.close(descriptor)
        if os.name != "posix":
            with suppress(OSError):
                path.unlink()
