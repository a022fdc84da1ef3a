"""Finds which files of a Rust crate use which others, by the items that a file names.

A file uses another one if its code or a `use` names an item that the other one defines, through any
number of re-exports. Declaring a module is not a use. Neither is a re-export (`pub use`), unless
the file's own code contains the name. It only points to another file, which is used by the code
that imports the item.

The front of a folder (`mod.rs`, or `name.rs` next to the folder `name/`) can therefore list the
folder's contents without depending on them. Like any other file, it depends on the items that its
own code uses, and files below it depend on the items that it defines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

Module = tuple[str, ...]

DEFINING = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:default |unsafe |const |async |extern \"C\" )*"
    r"(?:fn|struct|enum|union|trait|type|const|static(?: mut)?|macro_rules!) (\w+)",
    re.MULTILINE,
)
# A declaration starts a line, except for indentation, because a function may contain a `use`.
USING = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
DECLARING = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?mod \w+;", re.MULTILINE)
VISIBILITY = re.compile(r"\bpub\([^)]*\)")
PATH = re.compile(r"(?<![\w:$.])\w+(?:::\w+)+")
# A module within a file: from the beginning of a line to the closing brace at the same indentation.
INLINE = re.compile(r"^(?:pub(?:\([^)]*\))? )?mod (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)


@dataclass
class Source:
    """The items that a file defines and names."""

    path: str
    module: Module
    defined: set[str]
    # Local names with their paths, and the modules whose names are all imported.
    bound: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: list[tuple[str, ...]] = field(default_factory=list)
    # The paths that the file names.
    named: set[tuple[str, ...]] = field(default_factory=set)


def module_of(path: str) -> Module:
    """Return the module path of a file; `path` is below `src`."""
    parts = PurePosixPath(path).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def leaves(tree: str, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return the paths of a `use`, each with its local name; `*` means all names of a module."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, name = tree.partition(" as ")
        parts = (*before, *path.strip().split("::"))
        if parts[-1] == "self":
            parts = parts[:-1]
        yield parts, name.strip() or parts[-1]
        return
    start = tuple(part for part in head.strip().split("::") if part)
    depth, item = 0, ""
    for char in rest[: rest.rindex("}")] + ",":
        if char == "," and depth == 0:
            if item.strip():
                yield from leaves(item, (*before, *start))
            item = ""
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        item += char


def read(path: str, text: str) -> Source:
    """Parses the text of a file without its comments and tests."""
    module = module_of(path)
    inline = {found[1] for found in INLINE.finditer(text)}
    # In a module within the file, `super` is the file itself.
    text = INLINE.sub(lambda found: re.sub(r"(?<![\w:])super::", "", found[0]), text)
    source = Source(path, module, set(DEFINING.findall(text)) | inline)
    body = VISIBILITY.sub("", DECLARING.sub("", USING.sub("", text)))
    words = set(re.findall(r"\w+", body))
    for visibility, tree in USING.findall(text):
        for found, name in leaves(tree):
            if name == "*":
                source.globs.append(found[:-1])
            else:
                source.bound[name] = found
                if not visibility or name in words:
                    source.named.add(found)
    source.named |= {tuple(match.split("::")) for match in PATH.findall(body)}
    return source


class Crate:
    """Return the files of a crate by their paths below `src`."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.sources = {path: read(path, text) for path, text in texts.items()}
        self.modules = {source.module: source for source in self.sources.values()}

    def file_of(self, source: Source, path: tuple[str, ...], depth: int = 0) -> str | None:
        """Return the file that defines what a path names, or none for another crate's item."""
        first, *rest = path
        if first == "crate":
            module: Module = ()
        elif first == "self":
            module = source.module
        elif first == "super":
            module = source.module[:-1]
            while rest and rest[0] == "super":
                module, rest = module[:-1], rest[1:]
        elif (*source.module, first) in self.modules:
            module = (*source.module, first)
        elif first in source.bound and source.bound[first][0] != first and depth < 9:
            return self.file_of(source, (*source.bound[first], *rest), depth + 1)
        else:
            return None
        while rest and (*module, rest[0]) in self.modules:
            module, rest = (*module, rest[0]), rest[1:]
        owner = self.modules.get(module)
        if owner is None:
            return None
        if not rest or rest[0] in owner.defined or depth > 9:
            return owner.path
        paths = [owner.bound[rest[0]]] if rest[0] in owner.bound else []
        paths += [(*glob, rest[0]) for glob in owner.globs]
        found = (self.file_of(owner, (*path, *rest[1:]), depth + 1) for path in paths)
        # A name that a macro defines belongs to the file itself.
        return next((file for file in found if file), owner.path)

    def imports(self) -> set[tuple[str, str]]:
        """Return which files each file uses."""
        return {
            (source.path, other)
            for source in self.sources.values()
            for path in source.named | {(*glob, "*") for glob in source.globs}
            if (other := self.file_of(source, path)) and other != source.path
        }


def circles(imports: set[tuple[str, str]]) -> list[set[str]]:
    """Return the sets of two or more files that all reach each other."""
    uses: dict[str, set[str]] = {}
    for one, other in imports:
        uses.setdefault(one, set()).add(other)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        rest = [start]
        while rest:
            new = uses.get(rest.pop(), set()) - found
            found |= new
            rest.extend(new)
        return found

    reach = {one: reached(one) for one in uses}
    found: list[set[str]] = []
    for one in sorted(uses):
        if one in reach[one] and not any(one in circle for circle in found):
            found.append({other for other in reach[one] if one in reach.get(other, ())})
    return found


def folder_circles(imports: set[tuple[str, str]]) -> list[set[str]]:
    """Return the cycles inside each folder, at any depth.

    A folder counts as one node together with everything below it. `name.rs` next to `name/` is that
    folder's front and belongs to it.
    """
    files = {file for one in imports for file in one}
    parents = {parent.as_posix() for file in files for parent in PurePosixPath(file).parents}

    def place(file: str) -> PurePosixPath:
        stem = file.removesuffix(".rs")
        return PurePosixPath(stem, "mod.rs") if stem in parents else PurePosixPath(file)

    places = {(place(one), place(other)) for one, other in imports}
    found = []
    for parent in sorted(parents | {"."}):
        arrows = set()
        for pair in places:
            if all(end.is_relative_to(parent) for end in pair):
                one, other = (end.relative_to(parent).parts for end in pair)
                names = [part[0] + "/" * (len(part) > 1) for part in (one, other)]
                if names[0] != names[1]:
                    arrows.add((names[0], names[1]))
        found += [
            {f"{parent}/{name}".removeprefix("./") for name in circle}
            for circle in circles(arrows)
            if any(name.endswith("/") for name in circle)
        ]
    return found
