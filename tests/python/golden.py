"""Make the snapshots that later versions must restore, with the rows that come after them.

    python tests/python/golden.py 2

writes those of the present version, which calls its snapshots version 2, into
`tests/data/golden/2`. Files that are there stay as they are: they are of former versions.
"""

import sys
import zlib
from pathlib import Path

from states import KINDS

FOLDER = Path(__file__).parents[1] / "data" / "golden"


def rows_of(found: list[dict[str, object]]) -> str:
    """The rows as text, a line each."""
    return "".join(f"{row!r}\n" for row in found)


def main(version: str) -> None:
    """Write the kinds of a version that are not there."""
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    new = {name for name in KINDS if not (folder / f"{name}.snapshot").exists()}
    for name in sorted(new):
        kind = KINDS[name]
        operator = kind.used()
        (folder / f"{name}.snapshot").write_bytes(zlib.compress(operator.snapshot(), 9))
        (folder / f"{name}.rows").write_text(rows_of(kind.go_on(operator)))


if __name__ == "__main__":
    main(sys.argv[1])
