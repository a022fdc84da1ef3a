"""What others see of a release: links, citations, workflows that run known code, wheels."""

import importlib.util
import json
import re
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ADDRESS = "https://example.org/us/tidegate"


def script(name: str) -> ModuleType:
    """A script of `.github/scripts` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".github" / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_named_by_its_commit(workflow):
    used = re.findall(r"uses: *(.*)", workflow.read_text("utf-8"))
    assert used
    pinned = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d[\w.]*")
    assert [action for action in used if not pinned.fullmatch(action)] == []


def test_an_action_has_one_version():
    texts = [path.read_text("utf-8") for path in WORKFLOWS]
    used = {tuple(pair) for text in texts for pair in re.findall(r"uses: *(.*?)@(.*)", text)}
    assert len(used) == len({name for name, _ in used})


def test_a_workflow_may_read_alone():
    for path in WORKFLOWS:
        assert "\npermissions:\n  contents: read\n" in path.read_text("utf-8"), path.name


def test_links_of_the_index_page_have_addresses(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    index_page = script("index_page")
    readme = (ROOT / "README.md").read_text("utf-8")
    paths = [path for path, _ in index_page.LINK.findall(readme)]
    assert {"CHANGELOG.md", "python/examples", "SECURITY.md"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    page = index_page.with_addresses(readme, ADDRESS, "v1")
    assert index_page.LINK.findall(page) == []
    assert f"]({ADDRESS}/blob/v1/CHANGELOG.md)" in page
    assert f"]({ADDRESS}/tree/v1/python/examples)" in page
    assert page.replace(f"{ADDRESS}/blob/v1/", "").replace(f"{ADDRESS}/tree/v1/", "") == readme


def test_the_index_has_links_of_the_project(monkeypatch, tmp_path):
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    script("index_page").main(ADDRESS, "v1")
    made = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    assert made.pop("urls")["Issues"] == f"{ADDRESS}/issues"
    assert made == PROJECT


def test_five_papers_are_cited():
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    references = cited.partition("references:\n")[2].split("  - type: ")[1:]
    names = ["ScaleJoin", "Low-Latency Handshake", "Index-based Stream", "PPOIJ", "multiway"]
    assert len(references) == len(names)
    for name, reference in zip(names, references, strict=True):
        assert name in reference
        assert re.search(r"year: 20\d\d\n", reference)
        assert reference.count("family-names: ") > 1


def test_pythons_are_those_of_the_tests():
    told = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line}
    tested = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    listed = re.search(r'python: \[("3\.11".*)\]', tested)
    assert listed is not None
    assert told == set(re.findall(r"[\d.]+", listed[1]))


CRATES = ["arrow-array", "pyo3"]


@pytest.mark.parametrize(
    ("crates", "left_out", "more", "wanted"),
    [
        (CRATES, None, 0, []),
        (CRATES[:1], None, 0, ["its list of crates (CycloneDX) lacks arrow-array or pyo3"]),
        (None, None, 0, ["its list of crates (CycloneDX) lacks arrow-array or pyo3"]),
        (CRATES, "tidegate/py.typed", 0, ["it has no tidegate/py.typed"]),
        (CRATES, None, 10**7, ["it has 10,00"]),
    ],
)
def test_a_wheel_is_looked_into(tmp_path, crates, left_out, more, wanted):
    wheel = tmp_path / "tidegate-1-any.whl"
    files = {
        "tidegate/py.typed": "",
        "tidegate/_tidegate.pyi": "",
        "tidegate-1.dist-info/licenses/LICENSE": "",
        "tidegate/_tidegate.so": "." * more,
    }
    if crates is not None:
        components = [{"name": name} for name in crates]
        listed = json.dumps({"components": components})
        files["tidegate-1.dist-info/sboms/tidegate-python.cyclonedx.json"] = listed
    with zipfile.ZipFile(wheel, "w") as made:
        for name, text in files.items():
            if name != left_out:
                made.writestr(name, text)
    found = script("check_wheel").faults(wheel)
    assert len(found) == len(wanted)
    assert all(one.startswith(start) for one, start in zip(found, wanted, strict=True)), found
