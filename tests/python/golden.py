"""Make the snapshots that later versions must restore, with the rows that come after them.

    python tests/python/golden.py

writes those of the present version into `tests/data/golden`, each into the folder of the version
that the snapshot names. Files that are there stay as they are: they are of former versions.
"""

import re
import zlib
from pathlib import Path

from states import KINDS

FOLDER = Path(__file__).parents[1] / "data" / "golden"
VERSION_AT = len(b"TIDEGATE")


def rows_of(found: list[dict[str, object]]) -> str:
    """The rows as text, a line each."""
    text = "".join(f"{row!r}\n" for row in found)
    # If pytz is installed, older pyarrow releases use its time zones.
    return re.sub(r"<DstTzInfo ('[^']+') [^>]*>", r"zoneinfo.ZoneInfo(key=\1)", text)


def version_of(snapshot: bytes) -> int:
    """The version of the format, which a snapshot names."""
    return int.from_bytes(snapshot[VERSION_AT : VERSION_AT + 2], "little")


def main() -> None:
    """Write the kinds that are not there."""
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
