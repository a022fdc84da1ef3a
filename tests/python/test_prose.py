"""The prose checker: the phrases that it finds, and the text that it skips."""

import pytest

from test_published import ROOT, script

prose = script("prose")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "page.md",
            'A lock of its own.\n`of its own`, "of its own"\n```text\ngo on\n```\nWhence.\n',
            [1, 6],
        ),
        (
            "module.py",
            '"""Read it.\n\n>>> "go on"\nThreads go on.\n"""\nx = 1  # likewise\n',
            [4, 6],
        ),
        ("module.py", 'm = "the source is told that the row is late"\nn = "go on"\n', [1]),
        ("module.py", 'm = f"the source is told that row {n} is late"\n', [1]),
        (
            "lib.rs",
            "//! Threads go on.\n//! ```\n//! // go on\n//! ```\nlet told = 1; // told\n",
            [1],
        ),
        ("lib.rs", 'let text = "the source is told that the row is late";\n', [1]),
        (
            "lib.rs",
            'let a = 1;\nlet text = "the source is told \\\n    that the row is late";\n',
            [2],
        ),
    ],
)
def test_turns_are_found_where_they_are_prose(tmp_path, name, text, found):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    lines = [int(line.removeprefix(f"{path}:").split(":")[0]) for line in prose.found_in(path)]
    assert lines == found


def test_the_project_has_none(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["prose.py"])
    files = prose.tracked()
    if not files:
        pytest.skip("this folder is not in a Git repository, or is ignored there")
    assert "README.md" in files
    assert not prose.main(), capsys.readouterr().out
