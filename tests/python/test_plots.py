"""The recipes for plots: each page and picture is drawn from the rows that the recipe computes."""

import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "plots.md"


def blocks() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(number: int) -> dict[str, Any]:
    """Run a recipe with the trades that all recipes use."""
    names: dict[str, Any] = {}
    for block in (blocks()[0], blocks()[number]):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - of this repository
    return names


@pytest.mark.filterwarnings("ignore")
def test_matplotlib_draws_a_bar_for_each_window(tmp_path, monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = run(1)
    assert len(names["bars"]) == 39
    assert len(names["volumes"].patches) == 39
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore")
def test_altair_draws_a_band(tmp_path, monkeypatch):
    pytest.importorskip("altair")
    monkeypatch.chdir(tmp_path)
    names = run(2)
    assert (names["bands"]["low"] <= names["bands"]["high"]).all()
    assert [layer["mark"]["type"] for layer in names["chart"].to_dict()["layer"]] == [
        "area",
        "line",
    ]
    assert "vega" in (tmp_path / "bands.html").read_text()


def test_the_live_page_shows_complete_windows(capsys):
    names = run(3)
    [address] = re.findall(r"http://\S+", capsys.readouterr().out)
    with urllib.request.urlopen(address) as page:  # noqa: S310 - of this test
        assert "polyline" in page.read().decode()
    with urllib.request.urlopen(f"{address}points") as points:  # noqa: S310 - as above
        assert len(points.read().decode().split(",")) == 300
    assert len(names["points"]) == 300
    names["server"].shutdown()
    names["server"].server_close()
