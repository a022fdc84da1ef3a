"""States from earlier versions: runs resume from them, and produce the output of a single run."""

import shutil
from pathlib import Path

import pytest

import golden_states

FOLDERS = sorted(golden_states.FOLDER.glob("*/*/"))

pytestmark = pytest.mark.timeout(120)


def test_there_are_states_of_all_kinds():
    kinds = {*golden_states.KINDS, "csv"}
    assert {folder.name for folder in FOLDERS} == kinds
    assert {folder.parent.name for folder in FOLDERS} >= {"1"}


@pytest.mark.parametrize("kept", FOLDERS, ids=lambda kept: f"{kept.parent.name}-{kept.name}")
def test_a_kept_state_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Path):
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.glob("out.*")}
    found, wanted = golden_states.go_on(folder, kept.name)
    assert found == wanted
    # A part of the output existed before, and something had to be added.
    for name, content in before.items():
        assert 0 < len(content) < len((folder / name).read_bytes())
        assert (folder / name).read_bytes().startswith(content)
