"""Print the lowest supported version of each dependency except PySpark."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def lowest(described: dict[str, Any]) -> list[str]:
    """Pin each requirement in a pyproject.toml to its lower bound."""
    project = described["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    needed += _group(described["dependency-groups"], "test")
    return [
        re.sub(r">=([^,]+).*", r"==\1", requirement)
        for requirement in needed
        if not requirement.startswith("pyspark")
    ]


def _group(groups: dict[str, list[Any]], name: str) -> list[str]:
    found = []
    for entry in groups[name]:
        found += [entry] if isinstance(entry, str) else _group(groups, entry["include-group"])
    return found


if __name__ == "__main__":
    described = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))
    sys.stdout.writelines(f"{line}\n" for line in lowest(described))
