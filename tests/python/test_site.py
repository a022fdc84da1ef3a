"""The site is built from the manual, fetches nothing from other servers, and opens in a browser."""

import doctest
import functools
import html
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = (ROOT / "zensical.toml").read_text("utf-8")
NAVIGATION = tomllib.loads(CONFIG)["project"]["nav"]
NEEDED = ("black", "mkdocstrings_handlers", "zensical")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The links that a browser fetches automatically, unlike those that readers follow.
FETCHED = re.compile(r'<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)="?([^" >]+)')


def listed(entries: list[dict[str, object]]) -> Iterator[str]:
    """Yield the pages of a navigation."""
    for entry in entries:
        [of] = entry.values()
        yield from listed(of) if isinstance(of, list) else [of]


def test_a_page_of_the_manual_is_in_the_navigation():
    told = [*listed(NAVIGATION)]
    assert len(told) == len({*told})
    pages = {path.relative_to(DOCS) for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")}
    assert {Path("index.md"), Path("api/tables.md"), Path("papers/ppoij.md")} <= pages
    assert {page.with_suffix(".md").as_posix() for page in pages} - {*told} == set()


def test_a_public_name_is_in_the_reference():
    texts = [path.read_text("utf-8") for path in (DOCS / "api").glob("*.md")]
    shown = {name for text in texts for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    assert "tidegate.agg" in shown
    names = {name.rpartition(".")[2] for name in shown}
    assert {*tidegate.__all__} - {"__version__"} - names == set()
    spark = (ROOT / "python/tidegate/spark/__init__.py").read_text("utf-8")
    public = re.findall(r'"(\w+)"', spark.partition("__all__ = [")[2].partition("]")[0])
    assert "band_join" in public
    of_spark = {name.rpartition(".")[2] for name in shown if name.startswith("tidegate.spark.")}
    assert of_spark == {*public}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site outside the checkout, as `make site` builds it inside."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: pip install --group docs")
    folder = tmp_path_factory.mktemp("site")
    written = [sys.executable, ".github/scripts/site.py", folder / "manual"]
    subprocess.run(written, cwd=ROOT, check=True)
    config = CONFIG.replace('"target/manual"', '"manual"').replace(
        '["python"]', f'["{ROOT}/python"]'
    )
    config = config.replace('".github/', f'"{ROOT}/.github/')
    assert config.count(str(ROOT)) == 2
    (folder / "zensical.toml").write_text(config, "utf-8")
    built = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(built, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_no_page_asks_another_server(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    asked = {(page.name, at) for page in pages for at in FETCHED.findall(page.read_text("utf-8"))}
    assert ("index.html", "pairs.svg") in asked
    assert [one for one in asked if re.match(r"\w+:|//", one[1]) and "data:" not in one[1]] == []
    styles = [*site.rglob("*.css")]
    assert styles
    remote = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//")
    assert [style for style in styles if remote.search(style.read_text("utf-8"))] == []


def test_the_reference_has_the_docstrings(site):
    page = (site / "api" / "operators.html").read_text("utf-8")
    assert 'id="tidegate._tidegate.IntervalJoin"' in page
    words = re.sub(r"<[^>]+>", "", page)
    summary = "Match rows that are close in time as rows are pushed into sources."
    join = words[words.index(summary) :]
    before = words[: words.index(summary)]
    # A class page shows the arguments of the constructor, and examples are shown as code.
    assert "lateness" in before[before.rindex("IntervalJoin(") :]
    assert "&gt;&gt;&gt; join = tg.IntervalJoin(" in join


def test_a_language_model_finds_the_pages(site):
    head, *sections = (site / "llms.txt").read_text("utf-8").split("\n## ")
    assert re.fullmatch(r"# tidegate\n\n> tidegate .+\n", head)
    lines = [line for section in sections for line in section.splitlines()[1:] if line]
    found = [re.fullmatch(r"- \[.+?\]\(([^)]+)\)(?:: (.*))?", line) for line in lines]
    pages = {match[1]: match[2] for match in found if match}
    assert len(pages) == len(lines)
    assert len(pages) == len([*listed(NAVIGATION)]) - 1
    assert [page for page in pages if not (site / page).is_file()] == []
    assert "questions" in pages["how-to.html"]
    assert "`interval_join`" in pages["api/tables.html"]
    text = (site / "llms-full.txt").read_text("utf-8")
    assert text.startswith("# tidegate\n")
    for title in ("How to", "Live sources", "What it means", "Trades and the order book"):
        assert re.search(rf"^# {title}", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("OHLC", "how-to.html"),
        ("fill", "how-to.html"),
        ("dedupe", "how-to.html"),
        ("last known value", "how-to.html"),
        ("restart", "how-to.html"),
        ("plot", "how-to.html"),
        ("CSV delimiter", "how-to.html"),
        ("merge_asof", "from-pandas.html"),
        ("session window", "glossary.html"),
        ("checkpoint", "glossary.html"),
        ("wj", "glossary.html"),
    ],
)
def test_the_search_finds_ordinary_words(site, words, page):
    items = json.loads((site / "search.json").read_text("utf-8"))["items"]
    found = {
        item["location"].partition("#")[0]
        for item in items
        if all(
            re.search(rf"\b{word}", f"{item['title']} {item['text']}", re.IGNORECASE)
            for word in words.split()
        )
    }
    assert page in found
    assert [at for at in found if at.startswith(("repository/rust/", "repository/tests/"))] == []


class Served(SimpleHTTPRequestHandler):
    """Serves a folder and records each answer."""

    answers: list[tuple[str, int]]

    def send_response(self, code: int, message: str | None = None) -> None:
        self.answers.append((self.path, code))
        super().send_response(code, message)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the required name
        pass


def opened(site: Path, profile: Path, page: str) -> str:
    """Return a page as a browser shows it after its scripts have run without errors."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser: apt-get install chromium, or put google-chrome on the PATH")
    Served.answers = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Served, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        command = [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", f"--user-data-dir={profile}"),
            # No other server can be reached, as behind a firewall.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--virtual-time-budget=5000",
            f"http://127.0.0.1:{server.server_port}/{page}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    finally:
        server.shutdown()
        server.server_close()
    assert (f"/{page}", 200) in Served.answers
    assert [answer for answer in Served.answers if answer[1] >= 400] == []
    printed = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    # The button that was pressed last has the focus, which the field of the search would take.
    assert [line for line in printed if "Autofocus processing was blocked" not in line] == []
    return done.stdout


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("index.html", "the same, row by row"),
        ("api/tables.html", "Match rows from two inputs"),
    ],
)
def test_a_page_opens_in_a_browser(site, tmp_path, page, words):
    assert words in opened(site, tmp_path, page)


# Presses each copy button, and keeps what it puts into the clipboard.
COPYING = """<script>
const copied = [];
document.execCommand = () => copied.push(document.querySelector("body > textarea").value) > 0;
setInterval(() => {
  for (const button of document.querySelectorAll("button[data-md-type=copy]:not([data-seen])")) {
    button.dataset.seen = "";
    button.click();
  }
  document.body.dataset.copied = JSON.stringify(copied);
}, 100);
</script></body>"""


@pytest.mark.parametrize("page", ["joins", "live", "api/operators"])
def test_a_copy_button_copies_code_that_runs(site, tmp_path, page):
    target = site / f"{page}-copying.html"
    text = (site / f"{page}.html").read_text("utf-8")
    target.write_text(text.replace("</body>", COPYING), "utf-8")
    shown = opened(site, tmp_path, f"{page}-copying.html")
    target.unlink()
    found = re.search(r'data-copied="([^"]*)"', shown)
    assert found is not None
    copied = json.loads(html.unescape(found[1]))
    blocks = re.findall(r"<pre>.*?<code>(.*?)</code>", text, re.DOTALL)
    examples = [
        doctest.DocTestParser().get_examples(html.unescape(re.sub(r"<[^>]+>", "", block)))
        for block in blocks
    ]
    wanted = ["".join(one.source for one in block).rstrip() for block in examples if block]
    assert len(wanted) >= 5
    assert [code for code in copied if code in wanted] == wanted
    assert [code for code in copied if re.search(r"^(>>>|\.\.\.)", code, re.MULTILINE)] == []


# Shows pages as wide as a phone, and notes by how much each is wider.
PHONE = """<!doctype html><link rel="icon" href="data:,"><body><script>
const wide = {};
for (const page of PAGES) {
  const frame = document.createElement("iframe");
  frame.style.width = "390px";
  frame.addEventListener("load", () => {
    const root = frame.contentDocument.documentElement;
    wide[page] = root.scrollWidth - root.clientWidth;
    document.body.dataset.wide = JSON.stringify(wide);
  });
  frame.src = page;
  document.body.append(frame);
}
</script>"""


def test_a_page_fits_a_phone(site, tmp_path):
    pages = ["index.html", "comparison.html", "reference.html", "benchmarks.html", "spark.html"]
    phone = site / "phone.html"
    phone.write_text(PHONE.replace("PAGES", json.dumps(pages)), "utf-8")
    shown = opened(site, tmp_path, "phone.html")
    phone.unlink()
    found = re.search(r'data-wide="([^"]*)"', shown)
    assert found is not None
    assert json.loads(html.unescape(found[1])) == dict.fromkeys(pages, 0)


# Marks each word of a drawing that leaves its frame, and notes how many were looked at.
MEASURING = """<script>
const seen = [...document.querySelectorAll("svg text")];
const inside = (text) => {
  const box = text.getBoundingClientRect();
  const frame = text.closest("svg").getBoundingClientRect();
  return box.left >= frame.left && box.right <= frame.right && box.bottom <= frame.bottom;
};
const cut = seen.filter((text) => !inside(text)).map((text) => text.textContent);
document.body.dataset.cut = JSON.stringify([seen.length, cut]);
</script>"""


def test_no_drawing_is_cut_off(tmp_path):
    drawings = [path.read_text("utf-8") for path in sorted(DOCS.glob("*.svg"))]
    icon = '<link rel="icon" href="data:,">'
    page = f"<!doctype html>{icon}<body>{''.join(drawings)}{MEASURING}"
    (tmp_path / "drawings.html").write_text(page, "utf-8")
    shown = opened(tmp_path, tmp_path / "profile", "drawings.html")
    found = re.search(r'data-cut="([^"]*)"', shown)
    assert found is not None
    count, cut = json.loads(html.unescape(found[1]))
    assert count == sum(drawing.count("<text") for drawing in drawings) > 50
    assert cut == []
