"""Releases: links, claims, citations, wheels, and workflows that pin the code they run."""

import importlib.util
import json
import re
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DESCRIBED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = DESCRIBED["project"]
ADDRESS = "https://example.org/us/tidegate"


def script(name: str, folder: str = ".github/scripts") -> ModuleType:
    """Load a script as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
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
    assert {"CHANGELOG.md", "python/examples", "docs/joins.md", "docs/pairs.svg"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    page = index_page.with_addresses(readme, ADDRESS, "v1")
    assert index_page.LINK.findall(page) == []
    assert f"]({ADDRESS}/blob/v1/CHANGELOG.md)" in page
    assert f"]({ADDRESS}/tree/v1/python/examples)" in page
    assert f"]({ADDRESS}/blob/v1/docs/joins.md#overlap-join)" in page
    assert f"]({ADDRESS}/raw/v1/docs/pairs.svg)" in page
    assert re.sub(rf"{ADDRESS}/(blob|tree|raw)/v1/", "", page) == readme


def test_the_index_has_links_of_the_project(monkeypatch, tmp_path):
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    script("index_page").main(ADDRESS, "v1")
    made = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    assert made.pop("urls")["Issues"] == f"{ADDRESS}/issues"
    assert made == PROJECT


def prose() -> list[Path]:
    """Return the pages of the repository, without installed or generated ones."""
    beside = ["docs/**", "benches/**", "tests", "python/examples", ".github", "rust/*/src/**"]
    return [*ROOT.glob("*.md"), *(path for at in beside for path in ROOT.glob(f"{at}/*.md"))]


def without_code(page: Path) -> str:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*\]\([^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    headings = re.findall(r"^#+ (.*)", without_code(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    names = [heading.strip().replace(" ", "-") for heading in words]
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return {f"{name}-{n}" if n else name for name, n in zip(names, before, strict=True)}


@pytest.mark.parametrize("page", prose(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_link_leads_somewhere(page):
    broken = []
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)]*)?\)", without_code(page)):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor[1:] not in anchors(target)):
            broken.append(path + anchor)
    assert not broken


def test_the_manual_lists_its_pages():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert {"joins.md", "live.md", "reference.md"} <= pages
    assert [page for page in pages - {"index.md"} if f"]({page})" not in index] == []


def drawings() -> list[Path]:
    return sorted((ROOT / "docs").glob("*.svg"))


@pytest.mark.parametrize("drawing", drawings(), ids=lambda path: path.name)
def test_a_drawing_can_be_read_aloud_and_in_the_dark(drawing):
    root = ET.parse(drawing).getroot()  # noqa: S314 - our file
    parts = {part.tag.rpartition("}")[2]: part for part in reversed(root)}
    assert parts["title"].text
    assert parts["desc"].text
    assert parts["rect"].get("fill") in {"#ffffff", "#1f5fa8"}
    shown = [
        page
        for page in prose()
        if re.search(rf"!\[.+\]\(.*{drawing.name}\)", page.read_text("utf-8"))
    ]
    assert shown


def claimed(line: str, benchmarks: list[str]) -> bool:
    """Return whether the table of claims, which has more columns, contains a line."""
    return any(row.startswith(line) for row in benchmarks)


def test_claims_are_figures_of_the_benchmarks():
    benchmarks = (ROOT / "BENCHMARKS.md").read_text("utf-8").splitlines()
    readme = (ROOT / "README.md").read_text("utf-8")
    table = re.search(r"^\| \| ahead by .*\n\| --- .*\n((?:\| .*\n)+)", readme, re.MULTILINE)
    assert table is not None
    told = table[1].splitlines()
    assert len(told) > 5
    assert [line for line in told if not claimed(line, benchmarks)] == []
    plot = script("claims_plot", "benches")
    lines = plot.read(ROOT / "docs" / "speed.csv")
    for line in lines:
        assert claimed(line["words"], benchmarks)
        assert plot.multiple(line) in line["words"]
    assert plot.drawing(lines) == (ROOT / "docs" / "speed.svg").read_text("utf-8")


def test_the_first_chart_has_the_claims():
    text = (ROOT / "BENCHMARKS.md").read_text("utf-8")
    claims = re.findall(r"^\| ([^|]+) \| ([\d.]+ to [\d.]+)x \|", text, re.MULTILINE)
    bars = re.findall(r"^(\S.*\S) +(█+)(░*)  ([\d.]+) to ([\d.]+)$", text, re.MULTILINE)
    assert len(bars) > 5
    assert [(name, f"{low} to {high}") for name, *_, low, high in bars] == claims
    for *_, sure, more, low, high in bars:
        assert abs(len(sure) - float(low)) <= 0.5
        assert abs(len(sure + more) - float(high)) <= 0.5


FIGURE = re.compile(r"(?<![\w.^])\d+(?:,\d{3})*(?:\.\d+)?")
RECORD = ROOT / "benches" / "results"
QUOTED = re.compile(r"benches/results/([\w-]+\.md)(?:#([\w-]+))?\)")
PAPERS = [page for page in sorted((ROOT / "docs" / "papers").glob("*.md")) if page.stem != "index"]


def recorded(page: str, anchor: str) -> set[str]:
    """Return the figures in a section of a results page, or those of the whole page."""
    text = without_code(RECORD / page)
    if not anchor:
        return set(FIGURE.findall(text))
    parts = re.split(r"^(#+) (.*)$", text, flags=re.MULTILINE)[1:]
    headings = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    names = [re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for _, name, _ in headings]
    first = names.index(anchor)
    depth = len(headings[first][0])
    end = first + 1
    while end < len(headings) and len(headings[end][0]) > depth:
        end += 1
    return {figure for part in headings[first:end] for figure in FIGURE.findall(" ".join(part))}


def quoted(text: str) -> set[str]:
    """Return the figures in the sections of results pages to which a paragraph links."""
    return {figure for link in QUOTED.findall(text) for figure in recorded(*link)}


def headlines() -> list[str]:
    """Return the paragraphs, items and table rows of BENCHMARKS.md that link to results pages."""
    text = without_code(ROOT / "BENCHMARKS.md")
    # The range of a claim spans several machines, but the cells after its first three are from one
    # run.
    claim = r"^\| [^|]+ \| (?:more than )?[\d.]+(?: to [\d.]+)?x \| [^|]+"
    text = re.sub(claim, "", text, flags=re.MULTILINE)
    parts = re.split(r"\n\n|\n(?=[-|] )", text)
    return [part for part in parts if QUOTED.search(part)]


@pytest.mark.parametrize("part", headlines(), ids=lambda part: " ".join(part.split()[:6]))
def test_a_headline_quotes_the_record(part):
    words = re.sub(r"\]\([^)]*\)|`[^`]*`", "", part)
    assert set(FIGURE.findall(words)) - quoted(part) == set()


def measured(page: Path) -> list[str]:
    """Return the cells in the measurements column of a page's table of figures."""
    rows = re.findall(
        r"^\| [^|]+ \| [^|]+ \| ([^|]+) \| [^|]*\|$", without_code(page), re.MULTILINE
    )
    return [re.sub(r"\]\([^)]*\)|`[^`]*`", "", cell) for cell in rows[2:]]


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.stem)
def test_a_page_on_a_paper_quotes_the_record(page):
    known = quoted(page.read_text("utf-8"))
    cells = measured(page)
    assert len([cell for cell in cells if FIGURE.search(cell)]) > 2
    assert [cell for cell in cells if set(FIGURE.findall(cell)) - known] == []


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


def test_lower_bounds_are_the_versions_of_a_job():
    lowest = script("lowest").lowest
    found = lowest(DESCRIBED)
    assert {one.partition("==")[0] for one in found} >= {"numpy", "pyarrow", "typer", "polars"}
    assert [one for one in found if not re.fullmatch(r"[\w-]+(\[\w+\])?==[\d.]+", one)] == []
    made = {
        "project": {
            "dependencies": ["a>=1.2,<3"],
            "optional-dependencies": {"cli": ["b[c]>=2"], "spark": ["e>=7"]},
        },
        "dependency-groups": {
            "core": ["d-d>=4.0.1"],
            "test": [{"include-group": "core"}, "pyspark[connect]>=4.0"],
        },
    }
    assert lowest(made) == ["a==1.2", "b[c]==2", "d-d==4.0.1"]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\n  lowest:\n" in workflow
    assert "run: make lowest\n" in workflow
    assert re.search(r"^lowest:.*\n\t\$\(SCRIPTS\)/test_lowest\.sh$", makefile, re.MULTILINE)


CRATES = ["arrow-array", "pyo3"]


@pytest.mark.parametrize(
    ("crates", "left_out", "more", "wanted"),
    [
        (CRATES, None, 0, []),
        (CRATES[:1], None, 0, ["its list of crates (CycloneDX) lacks arrow-array or pyo3"]),
        (None, None, 0, ["its list of crates (CycloneDX) lacks arrow-array or pyo3"]),
        (CRATES, "tidegate/py.typed", 0, ["it has no tidegate/py.typed"]),
        (CRATES, None, 10**7, ["it is 10,00"]),
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
