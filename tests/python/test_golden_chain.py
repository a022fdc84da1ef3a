"""Snapshots of chains from earlier versions can always be restored."""

import zlib
from pathlib import Path

import pytest

from golden import rows_of
from golden_chain import CHAINS, go_on, make, used, version_of

SNAPSHOTS = sorted(CHAINS.glob("*.snapshot"))


def test_the_version_that_is_written_is_kept():
    assert version_of(used()[1].snapshot()) in {int(path.stem) for path in SNAPSHOTS}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.stem)
def test_a_kept_snapshot_goes_on(path: Path):
    snapshot = zlib.decompress(path.read_bytes())
    assert version_of(snapshot) == int(path.stem)
    join, chain = make()
    chain.restore(snapshot)
    rows = path.with_suffix(".rows").read_text()
    assert rows.count("\n") > 3
    assert rows_of(go_on(join, chain)) == rows
