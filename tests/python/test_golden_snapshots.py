"""Snapshots from earlier versions can always be restored."""

import zlib
from pathlib import Path

import pytest

from golden import FOLDER, rows_of, version_of
from states import KINDS

SNAPSHOTS = sorted(FOLDER.glob("[0-9]*/*.snapshot"))


def test_every_kind_is_kept_of_the_version_that_it_is_written_in():
    kept = {(path.stem, int(path.parent.name)) for path in SNAPSHOTS}
    written = {(name, version_of(kind.used().snapshot())) for name, kind in KINDS.items()}
    # Snapshots with sources that are idle or were added later have a separate version.
    assert {version for _, version in written} == {1, 2}
    assert written <= kept


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_kept_snapshot_goes_on(path: Path):
    snapshot = zlib.decompress(path.read_bytes())
    assert version_of(snapshot) == int(path.parent.name)
    kind = KINDS[path.stem]
    operator = kind.make()
    operator.restore(snapshot)
    rows = path.with_suffix(".rows").read_text()
    assert rows.count("\n") > 3
    assert rows_of(kind.go_on(operator)) == rows
