"""Find phrases that a native technical writer would avoid: prose.py [PATH ...].

The script reads the Markdown, Python and Rust files that Git tracks. In code, the script reads only
docstrings, comments and messages. Text in backticks, in code blocks and in quotation marks is
skipped. CONTRIBUTING.md, "Write plainly", shows what to write instead.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

THING = "(row|column|side|key|thread|task|file|batch|value|line|entry|number|function)"
# Patterns, with the advice for each. Case does not matter.
TURNS = {
    r"of (its|their|his) own(?! [a-z])": "its own, separate, dedicated",
    r"whoever|whosoever": "the noun: the caller, the reader",
    r"likewise": "the fact, in full",
    r"dearer": "more expensive",
    r"for good": "permanently",
    r"once (and )?for all(?! (of|the))": "once",
    r"tells|told(?! to)": "shows, reports, specifies",
    r"goes on|go on|went on": "continues, resumes",
    r"whence|whereby|wherein|therein|thereof|henceforth": "plain words",
    r"(?<!, )but for": "except",
    r"besides?": "next to, in addition to",
    r"what (is|was) left": "the noun: the remaining rows",
    r"what becomes of": "what happens to",
    r"without a partner": "unmatched",
    r"(?<!there )is no (number|name|time|row|column|file|place|way|date|list|type)": "is not a",
    rf"one {THING} an? (?!time)\w+": "per",
    rf"an? {THING} an? {THING}": "per",
    r"(is|are|was|were) (had|wanted|sought)": "the verb that says it",
    r"a text|texts": "a string",
    r"even keys": "evenly distributed keys",
    r"shall|ought": "must, should",
    r"so that none": "so that no row, so that no file",
    r"in vain|at leisure|by and by|ere|lest|albeit|notwithstanding": "plain words",
}
EXPRESSIONS = [
    (re.compile(rf"\b({turn})\b", re.IGNORECASE), instead) for turn, instead in TURNS.items()
]
# Code, links, quotations and the fields of messages are not prose.
SKIPPED = re.compile(
    r"``.*?``|`[^`]*`|\{[^{}]*\}|\]\([^)]*\)|https?://\S+|\*[A-Z][^*]*\*|[“\"][^”\"]*[”\"]"
)
STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"')
MESSAGE_WORDS = 6
# These files contain examples of what to find, and values that must not change.
EXCEPT = {Path("tests/python/test_prose.py"), Path("tests/python/states.py")}
STRING_TOKENS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines of a page outside code blocks, with line numbers."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            yield number, line


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines of docstrings, comments and messages, with their line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first = token.start[0]
        if token.type == tokenize.COMMENT:
            yield first, token.string
        elif token.type in STRING_TOKENS:
            if token.string.endswith('"""'):
                for at, line in enumerate(token.string.strip('"rf').splitlines()):
                    if not line.lstrip().startswith((">>>", "...")):
                        yield first + at, line
            elif len(token.string.split()) >= MESSAGE_WORDS:
                yield first, token.string.strip('"rfb')


def of_rust(text: str) -> Iterator[tuple[int, str]]:
    """Return the numbered lines of comments and messages."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"\s*//[/!]?(.*)", line)
        if comment:
            if comment[1].lstrip().startswith("```"):
                is_code = not is_code
            elif not is_code:
                yield number, comment[1]
            continue
        is_code = False
        for string in STRINGS.findall(line):
            if len(string.split()) >= MESSAGE_WORDS:
                yield number, string


READERS = {".md": of_markdown, ".py": of_python, ".pyi": of_python, ".rs": of_rust}


def found_in(path: Path) -> Iterator[str]:
    """Return a line for each turn in a file: where it is, what it is, and what to write instead."""
    for number, line in READERS[path.suffix](path.read_text()):
        for expression, instead in EXPRESSIONS:
            if match := expression.search(SKIPPED.sub(" ", line)):
                yield f"{path}:{number}: {match[0]!r}: write {instead}"


def main() -> int:
    """Print what is found; the exit code is 1 if anything is."""
    listed = ["git", "ls-files"]
    tracked = subprocess.check_output(listed, text=True).splitlines()  # noqa: S603 - this command
    given = sys.argv[1:] or tracked
    paths = [path for path in map(Path, given) if path.suffix in READERS and path not in EXCEPT]
    lines = [line for path in paths if path.is_file() for line in found_in(path)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
