"""Prepare README.md and pyproject.toml for a package index; run `index_page.py URL REF`.

README.md links to other files in the repository, but a package index does not contain these files.
The repository's address is known only when a release is built. This script runs in the checkout
from which the release is built. The script inserts the repository's address into these links and
into the links in the metadata. Image links point to the raw files, because a repository's web page
cannot be displayed as an image.
"""

import re
import sys
from pathlib import Path

IMAGES = {".svg", ".png"}
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")


def with_addresses(text: str, url: str, ref: str) -> str:
    """Return the text with relative links replaced by addresses in the repository."""

    def link(found: re.Match[str]) -> str:
        path, place = found[1], found[2] or ""
        if Path(path).suffix in IMAGES:
            return f"]({url}/raw/{ref}/{path})"
        kind = "tree" if Path(path).is_dir() else "blob"
        return f"]({url}/{kind}/{ref}/{path}{place})"

    return LINK.sub(link, text)


def links(url: str) -> str:
    """Return the `[project.urls]` table."""
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
    """Rewrite README.md and pyproject.toml."""
    readme, project = Path("README.md"), Path("pyproject.toml")
    readme.write_text(with_addresses(readme.read_text("utf-8"), url, ref), "utf-8")
    before, table, after = project.read_text("utf-8").partition("[project.scripts]\n")
    project.write_text(before + links(url) + table + after, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
