"""Make the snapshots that later versions must restore, with the rows that are emitted after them.

    python tests/python/golden.py

writes the snapshots of the current version to `tests/data/golden`, each in a folder named after the
version in the snapshot. Existing files stay unchanged, because they are from earlier versions.
"""

import re
import zlib
from pathlib import Path

from states import KINDS

FOLDER = Path(__file__).parents[1] / "data" / "golden"
VERSION_AT = len(b"TIDEGATE")


def rows_of(found: list[dict[str, object]]) -> str:
    """Format rows as text, one line each."""
    text = "".join(f"{row!r}\n" for row in found)
    # If pytz is installed, older pyarrow releases use its time zones.
    return re.sub(r"<DstTzInfo ('[^']+') [^>]*>", r"zoneinfo.ZoneInfo(key=\1)", text)


def version_of(snapshot: bytes) -> int:
    """Return the version of the format, which is part of a snapshot."""
    return int.from_bytes(snapshot[VERSION_AT : VERSION_AT + 2], "little")


def main() -> None:
    """Write the kinds that do not exist yet."""
    for name, kind in sorted(KINDS.items()):
        operator = kind.used()
        snapshot = operator.snapshot()
        path = FOLDER / str(version_of(snapshot)) / f"{name}.snapshot"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.compress(snapshot, 9))
            path.with_suffix(".rows").write_text(rows_of(kind.go_on(operator)))


if __name__ == "__main__":
    main()
