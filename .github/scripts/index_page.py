"""Prepare the page of a package index: index_page.py URL REF, in a checkout that is built from.

README.md links to files beside it, which an index does not have. The address of the repository is
known where a release is built, and gets into these links and into the metadata's links there. An
image is linked to as the file itself, for a page of the repository cannot be shown as one.
"""

import re
import sys
from pathlib import Path

IMAGES = {".svg", ".png"}
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")


def with_addresses(text: str, url: str, ref: str) -> str:
    """The text, in which links to files and folders of a checkout lead to the repository."""

    def link(found: re.Match[str]) -> str:
        path, place = found[1], found[2] or ""
        if Path(path).suffix in IMAGES:
            return f"]({url}/raw/{ref}/{path})"
        kind = "tree" if Path(path).is_dir() else "blob"
        return f"]({url}/{kind}/{ref}/{path}{place})"

    return LINK.sub(link, text)


def links(url: str) -> str:
    """The table of the project's links."""
    pages = {
        "Homepage": url,
        "Documentation": f"{url}/blob/main/docs/index.md",
        "Source": url,
        "Issues": f"{url}/issues",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
    }
    lines = [f'{name} = "{page}"' for name, page in pages.items()]
    return "\n".join(["[project.urls]", *lines, "", ""])


def main(url: str, ref: str) -> None:
    """Write README.md and pyproject.toml anew."""
    readme, project = Path("README.md"), Path("pyproject.toml")
    readme.write_text(with_addresses(readme.read_text("utf-8"), url, ref), "utf-8")
    before, table, after = project.read_text("utf-8").partition("[project.scripts]\n")
    project.write_text(before + links(url) + table + after, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
