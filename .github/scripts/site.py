"""Write the source pages of the site; run `site.py FOLDER` in a checkout.

`zensical.toml` specifies the folder, from which `make site` builds the site. Pages in `docs/` keep
their paths, and notebooks become pages. If a page links to a file elsewhere in the repository, that
file becomes a page below `repository/`. Pictures and data files are copied to the same place
unchanged. The site therefore does not need the repository's address, and all links work offline.
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
# Removes the styles of data frames, so that they look like other tables on the site.
STYLE = re.compile(r"<style scoped>.*?</style>\n*|(?<=<table) [^>]*", re.DOTALL)
COPIED = {".csv", ".png", ".svg"}
DOCS = Path("docs")


def shown(cell: dict[str, Any]) -> str:
    """Return a notebook cell as Markdown: its text, or its code followed by the outputs."""
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
    """Return a file as Markdown: a notebook with its outputs, or other code as a code block."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        return "\n\n".join(map(shown, json.loads(text)["cells"])) + "\n"
    if path.suffix == ".md":
        return text
    return f"# {path.as_posix()}\n\n```{path.suffix.lstrip('.')}\n{text.rstrip()}\n```\n"


def place(path: Path) -> Path:
    """Return the path in the folder to which a repository file is written."""
    path = path.relative_to(DOCS) if path.is_relative_to(DOCS) else "repository" / path
    if path.suffix in {".md", ".ipynb"}:
        return path.with_suffix(".md")
    return path if path.suffix in COPIED else path.with_name(path.name + ".md")


def linked(page: Path, path: str) -> Path:
    """Return the file that a link points to; for a folder, this is its README."""
    found = Path(os.path.normpath(page.parent / path))
    found = found / "README.md" if found.is_dir() else found
    if not found.is_file():
        message = f"{page} links to {path}, which does not exist"
        raise FileNotFoundError(message)
    return found


def anchored(page: Path, anchor: str) -> str:
    """Return the site's anchor; it ends in `_1` where GitHub's ends in `-1` (repeated headings)."""
    name, _, number = anchor.rpartition("-")
    if not number.isdigit():
        return anchor
    headings = re.findall(r"^#+ (.*)", BLOCK.sub("", read(page)), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for words in headings]
    return f"{name}_{number}" if names.count(name.removeprefix("#")) > 1 else anchor


def outside_of_blocks(text: str, change: re.Pattern[str], by: object) -> str:
    """Return the text after changing only the parts outside code blocks."""
    done, end = [], 0
    for block in BLOCK.finditer(text):
        done += [change.sub(by, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*done, change.sub(by, text[end:])])


def pages() -> dict[Path, str | None]:
    """Return the site's files with their content: the pages in docs/ and the files they link to."""
    wanted = [path for path in sorted(DOCS.rglob("*")) if path.suffix in {".md", ".ipynb"}]
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
    """Replace the contents of the folder."""
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
