"""Print the release notes; run `release_notes.py TAG [URL]` in a checkout.

The notes are the section for this version in CHANGELOG.md. The section's heading must be
`## [VERSION] - DATE`, and VERSION must be the one in Cargo.toml. If the repository's URL is given,
links to files become absolute.
"""

import re
import sys
import tomllib
from pathlib import Path

from index_page import with_addresses

NEXT = re.compile(r"^## ", re.MULTILINE)


def section(changelog: str, version: str) -> str:
    """Return the text of a version's section.

    Raises:
        ValueError: The section is missing, empty or undated.
    """
    heading = re.compile(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE
    ).search(changelog)
    if heading is None:
        message = f"CHANGELOG.md has no heading `## [{version}] - YYYY-MM-DD`; date the section"
        raise ValueError(message)
    text = NEXT.split(changelog[heading.end() :], maxsplit=1)[0].strip()
    if not text:
        message = f"the section [{version}] of CHANGELOG.md is empty; list what changes for users"
        raise ValueError(message)
    return text


def notes(tag: str, url: str | None = None) -> str:
    """Return the release notes for a tag.

    Raises:
        ValueError: The tag does not match the version in Cargo.toml, or the version has no section.
    """
    cargo = tomllib.loads(Path("Cargo.toml").read_text("utf-8"))
    version = cargo["workspace"]["package"]["version"]
    if tag != f"v{version}":
        message = f"the tag is {tag}, but Cargo.toml has version {version}; expected v{version}"
        raise ValueError(message)
    text = section(Path("CHANGELOG.md").read_text("utf-8"), version)
    return with_addresses(text, url, tag) if url else text


if __name__ == "__main__":
    try:
        sys.stdout.write(notes(*sys.argv[1:]) + "\n")
    except ValueError as error:
        sys.exit(f"release_notes.py: {error}")
