"""Statements of the manual, the docstrings and the help, compared with what the package does."""

import inspect
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from command_line import run
from tidegate.cli.commands import texts
from tidegate.io.files import ENDINGS, Format

ROOT = Path(__file__).parents[2]
STUB = (ROOT / "python" / "tidegate" / "_tidegate.pyi").read_text("utf-8")
HELPS = [name for name in vars(texts) if name.endswith("_HELP") and name != "DOCTOR_HELP"]
ROWS = pa.schema({"ts": pa.int64(), "x": pa.int64()})


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / name).read_text("utf-8").split())


def of_operator(method: str = "") -> str:
    """Return the docstring of `Operator` or of one of its methods, as the stub has it."""
    within = STUB.partition("class Operator(")[2]
    if method:
        within = within.partition(f"    def {method}(self")[2]
    return " ".join(within.split('"""')[1].split())


def test_the_help_names_all_extensions():
    assert re.findall(r"\.[a-z.]+[a-z]", texts.EXTENSIONS) == list(ENDINGS)
    assert len(HELPS) > 5
    assert [name for name in HELPS if texts.EXTENSIONS not in getattr(texts, name)] == []


def test_the_help_names_all_formats():
    named = {Format.PARQUET: "Parquet", Format.CSV: "CSV", Format.JSON: "JSON lines"}
    words = [named.get(one, "Arrow") for one in ENDINGS.values()]
    first = texts.HELP.partition("\n")[0]
    assert [word for word in words if word not in first] == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_command_writes_and_reads_files_of_an_extension(tmp_path, ending):
    rows, made = str(tmp_path / "rows.parquet"), str(tmp_path / f"made{ending}")
    pq.write_table(pa.table({"ts": [1, 2], "x": [3, 4]}), rows)
    assert run("merge", rows, "--on", "ts", "-o", made).exit_code == 0
    [given], [read] = (
        re.findall(r"^[0-9a-f]{32}", run("digest", path).stdout) for path in (rows, made)
    )
    assert given == read


def test_methods_of_lazy_frames_have_all_arguments_but_two():
    pl = pytest.importorskip("polars")
    import tidegate.polars  # noqa: F401, PLC0415 - polars is not on every Python

    text = r"the same arguments as the functions,\s+except\s+`(\w+)`\s+and\s+`(\w+)`"
    listed = re.search(text, page("inputs.md"))
    assert listed is not None
    known = inspect.signature(tg.interval_join_batches).parameters
    given = {"columns": ["ts"], "batch_rows": 10}
    assert set(listed.groups()) == set(given) <= set(known)
    frame = pl.LazyFrame({"ts": [1, 2]})
    query = {"on": "ts", "lower": 0, "upper": 0}
    for name, value in given.items():
        with pytest.raises(TypeError, match="omit columns and batch_rows"):
            frame.tidegate.interval_join(frame, **query, **{name: value})
    others = known.keys() - {"left", "right", *given, *query}
    defaults = {name: known[name].default for name in others}
    assert len(defaults) > 5
    joined = frame.tidegate.interval_join(frame, **query, **defaults)
    assert joined.collect()["ts_right"].to_list() == [1, 2]


def test_the_time_column_of_a_merge_is_ts_by_default():
    assert '`on` names the time column and defaults to `"ts"`.' in page("merge.md")
    for function in (tg.merge, tg.merge_batches, tg.Merge):
        assert inspect.signature(function).parameters["on"].default == "ts"


def test_how_to_answers_as_many_questions_as_it_says():
    text = (ROOT / "docs" / "how-to.md").read_text("utf-8")
    answers = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert "This page answers forty-seven common questions" in text
    assert len(answers) == 47
    assert [answer.partition("\n")[0] for answer in answers if "\n>>> " not in answer] == []


def test_the_docstring_of_operator_lists_all_operators():
    listed = re.search(r"into sources\.\s+([^.]*) are operators\.", of_operator())
    assert listed is not None
    operators = {
        name
        for name, value in vars(tg).items()
        if isinstance(value, type) and issubclass(value, tg.Operator) and value is not tg.Operator
    }
    assert set(re.findall(r"`(\w+)`", listed[1])) == operators - {"StreamJoin"}


def failing() -> tg.Operator:
    """Return a join whose condition fails for its first pair."""
    join = tg.IntervalJoin(ROWS, ROWS, on="ts", lower=0, upper=0, where="left.x / right.x > 1")
    left, right = join.sources
    left.push([{"ts": 1, "x": 8}, {"ts": 2, "x": 8}])
    right.push([{"ts": 1, "x": 0}, {"ts": 2, "x": 2}])
    left.close()
    right.close()
    return join


def overflowing() -> tg.Operator:
    """Return an aggregation whose sum overflows in its first window."""
    windows = tg.Aggregate(ROWS, on="ts", size=2, aggs={"x": tg.agg.sum("x")})
    [source] = windows.sources
    source.push([{"ts": 0, "x": 2**63 - 1}, {"ts": 1, "x": 1}, {"ts": 2, "x": 8}])
    source.close()
    return windows


@pytest.mark.parametrize("made", [failing, overflowing])
def test_an_error_is_raised_until_skip_is_called(made):
    stated = "Polls and snapshots raise the same error until you call `skip`."
    operator = made()
    for method in ("poll", "snapshot") * 2:
        assert stated in of_operator(method)
        with pytest.raises(tg.TidegateError, match="skip"):
            getattr(operator, method)()
    assert operator.skip()
    assert operator.snapshot()
    assert 8 in [x for batch in operator for x in batch["x"].to_pylist()]


@pytest.mark.parametrize("kind", [{"size": 10}, {"size": 10, "advance": 3}])
def test_a_window_beyond_64_bits_is_an_error_of_the_push(kind):
    assert "64-bit range" not in of_operator("poll") + of_operator("snapshot")
    windows = tg.Aggregate(ROWS, on="ts", **kind, aggs={"n": tg.agg.count()})
    [source] = windows.sources
    with pytest.raises(tg.TidegateError, match="64-bit range"):
        source.push([{"ts": 2**63 - 2, "x": 1}])
    assert windows.poll() is None
