"""Snapshots that former versions have made are restored for good."""

import zlib
from pathlib import Path

import pytest

from golden import FOLDER, rows_of
from states import KINDS

SNAPSHOTS = sorted(FOLDER.glob("[0-9]*/*.snapshot"))
VERSION_AT = len(b"TIDEGATE")


def test_every_kind_is_kept_of_the_newest_version():
    newest = max(int(path.parent.name) for path in SNAPSHOTS)
    kept = {path.stem for path in SNAPSHOTS if path.parent.name == str(newest)}
    assert kept == set(KINDS)
    made = next(iter(KINDS.values())).make().snapshot()
    assert int.from_bytes(made[VERSION_AT : VERSION_AT + 2], "little") == newest


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_kept_snapshot_goes_on(path: Path):
    snapshot = zlib.decompress(path.read_bytes())
    assert int.from_bytes(snapshot[VERSION_AT : VERSION_AT + 2], "little") == int(path.parent.name)
    kind = KINDS[path.stem]
    operator = kind.make()
    operator.restore(snapshot)
    rows = path.with_suffix(".rows").read_text()
    assert rows.count("\n") > 3
    assert rows_of(kind.go_on(operator)) == rows
