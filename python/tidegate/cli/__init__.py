"""The command `tidegate`. The extra `tidegate[cli]` installs its libraries.

- `app.py`: the subcommands by name; `commands/`: their options, and their help.
- `joining.py`, `aggregating.py`, `merging.py`, `digesting.py`: the work of the subcommands;
  `tables.py`: the files that they read and write; `doctor.py`: the report.
- `following.py`: joins and aggregates files as they grow; `feeding.py`: the threads that push their
  rows.
- `checkpoints.py`: when the state is written; `saved.py`: the content of a state, and why no row is
  lost or doubled.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


class _NoPandas:
    """Pandas is not found, whether it is installed or not.

    pyarrow imports it before it makes its first value, which may be one of pandas. The command has
    none, and would start in one and a half times the time.
    """

    @staticmethod
    def find_spec(fullname: str, _path: object, _target: object = None) -> None:
        if fullname == "pandas":
            message = "the command goes without pandas"
            raise ModuleNotFoundError(message, name=fullname)


def main() -> None:
    """Run the command line and exit with its code."""
    sys.meta_path.insert(0, _NoPandas())
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _terminate)
    try:
        try:
            # Here, so that a missing library is told in one line.
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
    """End in one line where standard output takes no more, such as a file on a full disk."""
    try:
        try:
            yield
        finally:
            # Here, as Python itself ends with a traceback.
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has enough of it.
        _forget_output()
    except OSError as error:
        _forget_output()
        sys.exit(f"tidegate: error: standard output: cannot be written: {error.strerror}")


def _forget_output() -> None:
    """Let what is still held back go to the null device."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - quick to start
        os.dup2(nowhere.fileno(), 1)


def _terminate(number: int, _frame: FrameType | None) -> None:
    """End as after an error, so that no temporary file stays behind."""
    sys.exit(128 + number)
