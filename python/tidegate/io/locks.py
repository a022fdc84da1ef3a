"""File locks, which the operating system releases when the process that holds them is killed."""

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
    """Try to lock an open file; return False if it is already locked or locks are unsupported."""
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
    """Hold a lock on the file `path`, which is used only for locking.

    Raises:
        StateError: Another run holds the lock; the message names `what`.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if not try_lock(descriptor):
            os.close(descriptor)
            message = (
                f"{what}: is in use by another run, which has locked {path}; "
                "stop that run, or give another state and another OUT"
            )
            raise StateError(message)
        # The previous holder of the lock may have removed the file after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                break
        os.close(descriptor)
    try:
        yield
    finally:
        # The file is removed while the lock is held, if the system can remove open files.
        if os.name == "posix":
            path.unlink(missing_ok=True)
        os.close(descriptor)
        if os.name != "posix":
            with suppress(OSError):
                path.unlink()
