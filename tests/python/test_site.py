"""The site is built from the manual, asks no other server for anything, and opens in a browser."""

import functools
import importlib.util
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
NEEDED = ("black", "mkdocstrings_handlers", "zensical")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What a browser fetches by itself; a reader follows other links, or does not.
FETCHED = re.compile(r'<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)="?([^" >]+)')


def listed(entries: list[dict[str, object]]) -> Iterator[str]:
    """The pages of a navigation."""
    for entry in entries:
        [of] = entry.values()
        yield from listed(of) if isinstance(of, list) else [of]


def test_a_page_of_the_manual_is_in_the_navigation():
    told = [*listed(tomllib.loads(CONFIG)["project"]["nav"])]
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
    """The site, built beside the checkout as `make site` builds it in it."""
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
    summary = "Match rows that are close in time, while rows are pushed into sources."
    join = words[words.index(summary) :]
    before = words[: words.index(summary)]
    # A class is shown with the arguments of its call, and examples as code.
    assert "lateness" in before[before.rindex("IntervalJoin(") :]
    assert "&gt;&gt;&gt; join = tg.IntervalJoin(" in join


class Served(SimpleHTTPRequestHandler):
    """Serves a folder and notes each answer."""

    answers: list[tuple[str, int]]

    def send_response(self, code: int, message: str | None = None) -> None:
        self.answers.append((self.path, code))
        super().send_response(code, message)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        pass


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("index.html", "the same, row by row"),
        ("api/tables.html", "Match rows of two inputs"),
    ],
)
def test_a_page_opens_in_a_browser(site, tmp_path, page, words):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser: apt-get install chromium, or put google-chrome on the PATH")
    Served.answers = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Served, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        command = [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", f"--user-data-dir={tmp_path}"),
            # No other server can be reached, as behind a firewall.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"http://127.0.0.1:{server.server_port}/{page}",
        ]
        opened = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    finally:
        server.shutdown()
        server.server_close()
    assert words in opened.stdout
    assert (f"/{page}", 200) in Served.answers
    assert [answer for answer in Served.answers if answer[1] >= 400] == []
    assert [line for line in opened.stderr.splitlines() if "CONSOLE" in line] == []
