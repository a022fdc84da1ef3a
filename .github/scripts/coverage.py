"""Report the code that the tests reach, using the data collected by coverage.sh.

coverage.py objects BUILT.json           list the test binaries that cargo built
coverage.py report RUST.lcov PYTHON.json report lines by folder, and unsafe blocks not reached
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.DOTALL)
UNSAFE = re.compile(r"\bunsafe\s*(?:extern\s+\"[^\"]*\"\s*)?(?:fn\b[^;{]*)?\{")


def objects(built: Path) -> list[str]:
    """Return the test binaries listed in cargo's messages."""
    messages = map(json.loads, built.read_text("utf-8").splitlines())
    return [message["executable"] for message in messages if message.get("executable")]


def rust_lines(counted: Path) -> dict[Path, dict[int, int]]:
    """Return each line's execution count, which is the maximum over all instances of the code."""
    lines: dict[Path, dict[int, int]] = defaultdict(dict)
    file = ROOT
    for text in counted.read_text("utf-8").splitlines():
        kind, _, told = text.partition(":")
        if kind == "SF":
            file = (ROOT / told).resolve()
        elif kind == "DA":
            number, hits = map(int, told.split(",")[:2])
            lines[file][number] = max(hits, lines[file].get(number, 0))
    rooms = ROOT / "rust"
    return {path: found for path, found in lines.items() if path.is_relative_to(rooms)}


def unsafe_blocks(source: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last lines of each unsafe block and function."""
    code = NO_CODE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), source)
    for match in UNSAFE.finditer(code):
        depth, end = 1, match.end()
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        yield code.count("\n", 0, match.start()) + 1, code.count("\n", 0, end) + 1


def room(path: Path) -> str:
    """Return a Rust file's crate and folder, or a Python file's package folder."""
    folder = path.relative_to(ROOT).parent.parts
    if folder[0] == "python":
        return "/".join(folder[:3])
    crate, *inner = (part for part in folder[1:] if part != "src")
    return "/".join([crate, *inner[:1]])


def table(lines: dict[Path, dict[int, int]]) -> Iterator[str]:
    """Yield a Markdown table of the lines in each folder."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, found in lines.items():
        for of in (room(path), "all"):
            counts[of][0] += sum(hits > 0 for hits in found.values())
            counts[of][1] += len(found)
    yield "| folder | lines | reached |"
    yield "| --- | ---: | ---: |"
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        reached, total = counts[name]
        yield f"| `{name}` | {total:,} | {100 * reached / max(total, 1):.1f} % |"


def report(counted: Path, python: Path) -> Iterator[str]:
    """Yield the lines of the Markdown report."""
    lines = rust_lines(counted)
    product = {path: found for path, found in lines.items() if "tests" not in path.parts}
    product = {path: found for path, found in product.items() if path.name != "tests.rs"}
    yield from ("# Rust", "", *table(product), "")
    missed, blocks = [], 0
    for path, found in sorted(product.items()):
        for first, last in unsafe_blocks(path.read_text("utf-8")):
            hits = [found[line] for line in range(first, last + 1) if line in found]
            blocks += bool(hits)
            if hits and not any(hits):
                missed.append(f"- `{path.relative_to(ROOT)}:{first}`")
    yield f"{blocks - len(missed)} of {blocks} unsafe blocks and functions were reached, except:"
    yield from ("", *missed, "")
    package = {}
    for name, file in json.loads(python.read_text("utf-8"))["files"].items():
        path = ROOT / "python" / "tidegate" / name.rpartition("/tidegate/")[2]
        missing = dict.fromkeys(file["missing_lines"], 0)
        package[path] = dict.fromkeys(file["executed_lines"], 1) | missing
    yield from ("# Python", "", *table(package))


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    answer = {"objects": objects, "report": report}[command](*map(Path, paths))
    sys.stdout.write("\n".join(answer) + "\n")
