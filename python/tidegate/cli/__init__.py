"""The command `tidegate`. The extra `tidegate[cli]` installs the required libraries.

- `app.py`: the subcommands by name; `commands/`: their options and help.
- `joining.py`, `aggregating.py`, `merging.py`, `indexing.py`, `digesting.py`: what the subcommands
  do; `tables.py`: the files that subcommands read and write; `doctor.py`: the bug report.
- `following.py`: joins and aggregates files while they grow; `feeding.py`: threads that push rows
  from these files.
- `checkpoints.py`: saves the state at intervals; `saved.py`: defines a state's contents, and
  explains why no row is lost or duplicated.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


class _NoPandas:
    """Hides pandas from imports, even if it is installed.

    pyarrow imports pandas before converting its first value, in case that value is a pandas object.
    The command does not use pandas, and importing pandas would make startup take 1.5 times as long.
    """

    @staticmethod
    def find_spec(fullname: str, _path: object, _target: object = None) -> None:
        if fullname == "pandas":
            message = "the command does not use pandas"
            raise ModuleNotFoundError(message, name=fullname)


def main() -> None:
    """Run the command line, and exit with its exit code."""
    sys.meta_path.insert(0, _NoPandas())
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _terminate)
    try:
        try:
            # Imported here, so that a missing library is reported in one line.
            from tidegate.cli.app import app  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if error.name not in {"typer", "tqdm"}:
                raise
            sys.exit(f"tidegate: {error.name} is not installed: run pip install 'tidegate[cli]'")
        with _told_what_is_full():
            app(prog_name="tidegate")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextmanager
def _told_what_is_full() -> Iterator[None]:
    """Report in one line that standard output cannot be written, for example to a full disk."""
    try:
        try:
            yield
        finally:
            # Flushed here, because Python itself would print a traceback.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe.
        _forget_output()
    except OSError as error:
        _forget_output()
        sys.exit(f"tidegate: error: standard output: cannot be written: {error.strerror}")


def _forget_output() -> None:
    """Send output that is still buffered to the null device."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - quick to start
        os.dup2(nowhere.fileno(), 1)


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Exit in the same way as after an error, so that temporary files are removed."""
    sys.exit(128 + number)
