"""Each option is declared once, in `tidegate.options`; everything else is derived from it."""

import ast
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

import tidegate
from tidegate.cli.commands import making
from tidegate.options import JOINS, OPTIONS, OfCommand, Option, options_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    """The script that `make options` runs."""
    path = ROOT / ".github" / "scripts" / "options.py"
    spec = importlib.util.spec_from_file_location("options_script", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_files_have_what_the_table_says(generator):
    files = [*generator._files()]
    assert {path.name for path, _, _ in files} >= {"functions.py", "_tidegate.pyi", "joins.py"}
    stale = [path.name for path, text, new in files if text != new]
    assert not stale, "run make options"


@pytest.mark.parametrize("function", [*JOINS, "aggregate", "merge"])
@pytest.mark.parametrize("form", ["", "_batches"])
def test_signatures_are_those_of_the_table(function, form):
    signature = inspect.signature(getattr(tidegate, f"{function}{form}"))
    options = options_of(f"{function}{form}")
    assert {option.name for option in options} == signature.parameters.keys()
    for option in options:
        given = signature.parameters[option.name]
        default = inspect.Parameter.empty
        if option.default is not None:
            default = ast.literal_eval(option.default)
        assert given.default == default, option.name
        assert (given.kind is inspect.Parameter.KEYWORD_ONLY) != option.is_input


def test_a_new_option_is_one_entry(generator):
    """The entry updates files, Spark and the command; only the native query must be edited."""
    new = Option(
        "fuzziness",
        "float | None",
        (*JOINS, "IntervalJoin", "spark.interval_join"),
        """
        How far off a clock may be.
        """,
        default="None",
        command=OfCommand("How far off a clock may be.", metavar="SHARE"),
    )
    at = next(place for place, option in enumerate(OPTIONS) if option.name == "suffix")
    options = [*OPTIONS[:at], new, *OPTIONS[at:]]
    declared = "fuzziness: float | None = None,"
    explained = "        fuzziness: How far off a clock may be.\n"
    expected = {"calls/functions.py": 10, "_tidegate.pyi": 6, "spark/joins.py": 1}
    for file, places in expected.items():
        text = (generator.PACKAGE / file).read_text(encoding="utf-8")
        found = generator.rewritten(file, text, options)
        assert found.count(declared) == places
        # The native functions that build queries do not describe their options.
        assert found.count(explained) == (1 if file.endswith(".pyi") else places)
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert "| `fuzziness` | `None` | all joins |" in generator.referenced(page, options)


def test_a_new_option_is_one_of_the_command(monkeypatch):
    new = Option(
        "fuzziness",
        "int | None",
        ("interval_join",),
        "How far off a clock may be.",
        default="None",
        command=OfCommand("How far off a clock may be.", metavar="SHARE", least=1),
    )
    of_table = options_of("interval_join")
    monkeypatch.setattr(making, "options_of", lambda _: [*of_table, new])
    asked = []

    @making.command("interval_join", lambda **arguments: arguments)
    def work(found: making.Asked, left: str, *, traceback: bool = False) -> None:
        asked.append((found.query, left, traceback))

    parameters = inspect.signature(work).parameters
    [info] = parameters["fuzziness"].annotation.__metadata__
    assert (info.help, info.metavar, info.min) == ("How far off a clock may be.", "SHARE", 1)
    texts = dict.fromkeys(parameters) | {"left": "a.csv", "traceback": False}
    work(**texts | {"on": "ts", "lower": "-5s", "upper": "none", "fuzziness": 3})
    [(query, left, _)] = asked
    assert left == "a.csv"
    assert query["fuzziness"] == 3
    assert (query["on"], query["lower"], query["upper"]) == (("ts", "ts"), "-5s", None)


def test_texts_are_sentences():
    for option in OPTIONS:
        text = option.plain_text
        assert re.match(r"[A-Z`]", text), option.name
        assert text.endswith("."), option.name
