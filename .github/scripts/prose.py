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
    r"of (its|their|his) own(?! [a-z])": "write 'its own', 'separate' or 'dedicated'",
    r"whoever|whosoever": "name the person or the code, such as 'the caller'",
    r"likewise": "repeat the fact",
    r"dearer": "write 'more expensive'",
    r"for good": "write 'permanently'",
    r"once (and )?for all(?! (of|the))": "write 'once'",
    r"tells|told(?! to)": "write 'shows', 'reports' or 'specifies'",
    r"goes on|go on|went on": "write 'continues' or 'resumes'",
    r"whence|whereby|wherein|therein|thereof|henceforth": "use a plain word",
    r"(?<!, )but for": "write 'except'",
    r"besides?": "write 'next to' or 'in addition to'",
    r"what (is|was) left": "name it, such as 'the remaining rows'",
    r"what becomes of": "write 'what happens to'",
    r"without a partner": "write 'unmatched'",
    rf"(?<!there )is no ({THING}|name|time|place|way|date|list|type)": "write 'is not a'",
    rf"one {THING} an? (?!time)\w+": "write 'per'",
    rf"an? {THING} an? {THING}": "write 'per'",
    r"(is|are|was|were) (had|wanted|sought)": "use a more precise verb",
    r"a text|texts": "write 'a string'",
    r"even keys": "write 'evenly distributed keys'",
    r"shall|ought": "write 'must' or 'should'",
    r"so that none": "write 'so that no row', for example",
    r"in vain|at leisure|by and by|ere|lest|albeit|notwithstanding": "use plain words",
}
EXPRESSIONS = [
    (re.compile(rf"\b({turn})\b", re.IGNORECASE), advice) for turn, advice in TURNS.items()
]
# Code, links, quotations and the fields of messages are not prose.
SKIPPED = re.compile(
    r"``.*?``|`[^`]*`|\{[^{}]*\}|\]\([^)]*\)|https?://\S+|\*[A-Z][^*]*\*|[“\"][^”\"]*[”\"]"
)
STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# A string of Rust that continues on the next line.
CONTINUED = re.compile(r"\\\n\s*")
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
    """Return the numbered lines of comments, and the messages with the lines they begin on."""
    code = re.sub(r"(?m)^[ \t]*//.*|'\"'", "", text)
    for string in STRINGS.finditer(code):
        message = CONTINUED.sub("", string[1])
        if "\n" not in message and len(message.split()) >= MESSAGE_WORDS:
            yield code.count("\n", 0, string.start()) + 1, message
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"\s*//[/!]?(.*)", line)
        if not comment:
            is_code = False
        elif comment[1].lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, comment[1]


READERS = {".md": of_markdown, ".py": of_python, ".pyi": of_python, ".rs": of_rust}


def found_in(path: Path) -> Iterator[str]:
    """Yield one message per phrase found, with its line number and the advice."""
    for number, line in READERS[path.suffix](path.read_text("utf-8")):
        for expression, advice in EXPRESSIONS:
            if match := expression.search(SKIPPED.sub(" ", line)):
                yield f"{path}:{number}: {match[0]!r}: {advice}"


def tracked() -> list[str]:
    """Return the files that Git tracks."""
    command = ["git", "ls-files"]
    return subprocess.check_output(command, text=True).splitlines()  # noqa: S603 - this command


def main() -> int:
    """Print what is found; the exit code is 1 if anything is."""
    given = sys.argv[1:] or tracked()
    paths = [path for path in map(Path, given) if path.suffix in READERS and path not in EXCEPT]
    lines = [line for path in paths if path.is_file() for line in found_in(path)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
