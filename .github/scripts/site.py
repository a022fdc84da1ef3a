"""Write the source pages of the site; run `site.py FOLDER` in a checkout.

`make site` builds the site from this folder, which `zensical.toml` names. Pages in `docs/` keep
their paths, and notebooks become pages. Linked files outside `docs/` become pages in `repository/`;
images and data are copied there unchanged. All links therefore work offline, and the site does not
need the repository's address. For language models, `llms.txt` lists the pages, and `llms-full.txt`
contains all pages as Markdown.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PROMPTS = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
# A picture that is a paragraph; on the site, it links to its file, which shows it in full size.
PICTURE = re.compile(r"^(!\[[^]]*\]\(([^)]+)\))$", re.MULTILINE)
# Removes the styles of data frames, so that they look like other tables on the site.
STYLE = re.compile(r"<style scoped>.*?</style>\n*|(?<=<table) [^>]*", re.DOTALL)
COPIED = {".css", ".csv", ".js", ".png", ".svg"}
DOCS = Path("docs")
# Pages for contributors, which would hide the answers for users in the results of a search.
UNSEARCHED = ("benches", "python/tidegate", "rust", "tests")


def shown(cell: dict[str, Any]) -> str:
    """Return a notebook cell as Markdown: either its text, or its code and outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    parts = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text")})
        if "text/html" in data:
            parts.append(STYLE.sub("", "".join(data["text/html"])))
        else:
            parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts)


def read(path: Path) -> str:
    """Convert a file to Markdown: show a notebook with its outputs, and other code in a block."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        return "\n\n".join(map(shown, json.loads(text)["cells"])) + "\n"
    if path.suffix == ".md":
        return text
    return f"# {path.as_posix()}\n\n```{path.suffix.lstrip('.')}\n{text.rstrip()}\n```\n"


def place(path: Path) -> Path:
    """Return the path within the folder at which a repository file is written."""
    path = path.relative_to(DOCS) if path.is_relative_to(DOCS) else "repository" / path
    if path.suffix in {".md", ".ipynb"}:
        return path.with_suffix(".md")
    return path if path.suffix in COPIED else path.with_name(path.name + ".md")


def linked(page: Path, path: str) -> Path:
    """Return the file that a link points to, or the README if the link points to a folder."""
    found = Path(os.path.normpath(page.parent / path))
    found = found / "README.md" if found.is_dir() else found
    if not found.is_file():
        message = f"{page} links to {path}, which does not exist"
        raise FileNotFoundError(message)
    return found


def anchored(page: Path, anchor: str) -> str:
    """Return the site's anchor, which has `_1` for a repeated heading where GitHub has `-1`."""
    name, _, number = anchor.rpartition("-")
    if not number.isdigit():
        return anchor
    headings = re.findall(r"^#+ (.*)", BLOCK.sub("", read(page)), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for words in headings]
    return f"{name}_{number}" if names.count(name.removeprefix("#")) > 1 else anchor


def outside_of_blocks(text: str, change: re.Pattern[str], by: object) -> str:
    """Return the text with changes made only outside code blocks."""
    done, end = [], 0
    for block in BLOCK.finditer(text):
        done += [change.sub(by, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*done, change.sub(by, text[end:])])


def pages() -> dict[Path, str | None]:
    """Return the site's files with their contents: pages in docs/, and the files they link to."""
    kinds = {".css", ".ipynb", ".js", ".md"}
    wanted = [path for path in sorted(DOCS.rglob("*")) if path.suffix in kinds]
    found: dict[Path, str | None] = {}
    while wanted:
        page = wanted.pop()
        if page in found:
            continue
        if page.suffix in COPIED:
            found[page] = None
            continue

        def link(match: re.Match[str], page: Path = page) -> str:
            other = linked(page, match[1]) if match[1] else page
            wanted.append(other)
            path = Path(os.path.relpath(place(other), place(page).parent))
            anchor = anchored(other, match[2]) if match[2] else ""
            return f"]({path.as_posix() if match[1] else ''}{anchor})"

        text = read(page)
        if page.suffix in {".md", ".ipynb"}:
            text = outside_of_blocks(text, LINK, link)
            text = outside_of_blocks(text, PICTURE, r"[\1](\2)")
        found[page] = PROMPTS.sub("```pycon\n", text)
    return found


def rows_of_tables(folder: Path) -> dict[str, str]:
    """Return the descriptions of other pages from the tables on the overview pages."""
    row = re.compile(r"^\|(?: [^|\n]* \|)? \[[^]]*\]\(([^)]*)\) \| (.*) \|$", re.MULTILINE)
    return {
        (page.parent / path).relative_to(folder).as_posix(): words
        for page in [*folder.glob("*/index.md"), folder / "index.md"]
        for path, words in row.findall(page.read_text("utf-8"))
    }


def described(text: str) -> str:
    """Return a page's first sentence, or the names whose docstrings the page shows."""
    if names := re.findall(r"^::: .*\.(\w+)$", text, re.MULTILINE):
        return f"docstrings of {', '.join(f'`{name}`' for name in names)}"
    for paragraph in re.split(r"\n\s*\n", text.partition("\n## ")[0]):
        if re.match(r"[A-Za-z`*]", paragraph):
            line = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=[.:])\s+(?=[A-Z`])", line)[0].rstrip(":")
    return ""


def listed(folder: Path) -> tuple[str, str]:
    """Return `llms.txt` (a list of pages for language models) and a single page with all pages."""
    config = tomllib.loads(Path("zensical.toml").read_text("utf-8"))["project"]
    home = (folder / "index.md").read_text("utf-8")
    descriptions = rows_of_tables(folder)
    [summary] = re.findall(r"\A# .*\n\n((?:.+\n)+)", home)
    head = f"# {config['site_name']}\n\n> {' '.join(summary.split())}\n"
    lines, texts = [head], [home]
    for group in config["nav"]:
        for section, entries in group.items():
            if isinstance(entries, str):
                continue
            lines.append(f"\n## {section}\n\n")
            for entry in entries:
                for title, path in entry.items():
                    text = (folder / path).read_text("utf-8")
                    words = descriptions.get(path) or described(text)
                    # A README becomes the index of its folder.
                    address = path.replace("README.md", "index.md").replace(".md", ".html")
                    lines.append(f"- [{title}]({address}){': ' * bool(words)}{words}\n")
                    texts += [text] * (not path.startswith("api/"))
    return "".join(lines), "\n".join(texts)


def main(folder: str) -> None:
    """Replace the contents of the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in pages().items():
        target = folder / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            shutil.copyfile(page, target)
        else:
            unsearched = any(map(page.is_relative_to, UNSEARCHED))
            front = "---\nsearch:\n  exclude: true\n---\n\n" if unsearched else ""
            target.write_text(front + text, "utf-8")
    pages_in_lines, texts = listed(Path(folder))
    (Path(folder) / "llms.txt").write_text(pages_in_lines, "utf-8")
    (Path(folder) / "llms-full.txt").write_text(texts, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
