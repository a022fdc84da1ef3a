"""The command `tidegate`; its libraries are those of the extra `tidegate[cli]`."""

import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            # Here, so that a missing library is told in one line.
            from tidegate.cli.app import app  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if error.name not in {"typer", "tqdm"}:
                raise
            sys.exit(f"tidegate: {error.name} is not installed: run pip install 'tidegate[cli]'")
        app(prog_name="tidegate")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _terminate(number: int, _frame: FrameType | None) -> None:
    """End as after an error, so that no temporary file stays behind."""
    sys.exit(128 + number)
