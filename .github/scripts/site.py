"""Write the pages that the site is built from: site.py FOLDER, in a checkout.

`zensical.toml` names the folder, and `make site` builds the site from it. A page of `docs/` keeps
its path, and a notebook becomes a page. A file elsewhere in the repository that a page links to
becomes a page below `repository/`, or is copied there if it is a picture or data. So the site needs
no address of a repository, and every link of it can be followed without a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PROMPTS = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
# How a frame's table looks; on the site, it looks as others do.
STYLE = re.compile(r"<style scoped>.*?</style>\n*|(?<=<table) [^>]*", re.DOTALL)
COPIED = {".css", ".csv", ".js", ".png", ".svg"}
DOCS = Path("docs")


def shown(cell: dict[str, Any]) -> str:
    """A cell of a notebook as Markdown: its text, or its code with the outputs."""
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
    """A page as Markdown; a notebook with its outputs, and code as a block."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        return "\n\n".join(map(shown, json.loads(text)["cells"])) + "\n"
    if path.suffix == ".md":
        return text
    return f"# {path.as_posix()}\n\n```{path.suffix.lstrip('.')}\n{text.rstrip()}\n```\n"


def place(path: Path) -> Path:
    """Where a file of the repository is in the folder."""
    path = path.relative_to(DOCS) if path.is_relative_to(DOCS) else "repository" / path
    if path.suffix in {".md", ".ipynb"}:
        return path.with_suffix(".md")
    return path if path.suffix in COPIED else path.with_name(path.name + ".md")


def linked(page: Path, path: str) -> Path:
    """The file that a link of a page leads to; a folder's is its README."""
    found = Path(os.path.normpath(page.parent / path))
    found = found / "README.md" if found.is_dir() else found
    if not found.is_file():
        message = f"{page} links to {path}, which does not exist"
        raise FileNotFoundError(message)
    return found


def anchored(page: Path, anchor: str) -> str:
    """The anchor, which GitHub ends in `-1` where a heading is repeated, and the site in `_1`."""
    name, _, number = anchor.rpartition("-")
    if not number.isdigit():
        return anchor
    headings = re.findall(r"^#+ (.*)", BLOCK.sub("", read(page)), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for words in headings]
    return f"{name}_{number}" if names.count(name.removeprefix("#")) > 1 else anchor


def outside_of_blocks(text: str, change: re.Pattern[str], by: object) -> str:
    """The text, changed where it is no block of code."""
    done, end = [], 0
    for block in BLOCK.finditer(text):
        done += [change.sub(by, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*done, change.sub(by, text[end:])])


def pages() -> dict[Path, str | None]:
    """The files of the site and their texts: pages of docs/, and all that they lead to."""
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
        found[page] = PROMPTS.sub("```pycon\n", text)
    return found


def main(folder: str) -> None:
    """Write the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in pages().items():
        target = folder / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            shutil.copyfile(page, target)
        else:
            target.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
