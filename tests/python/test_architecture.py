"""The architecture's invariants: each test names what must be absent, after finding the folders."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import rust_imports

ROOT = Path(__file__).parents[2]
RUST = ROOT / "rust"

# From the bottom up: a crate may only use the crates before it.
CRATES = ["sync", "structures", "operators", "papers", "tidegate", "import", "python"]
UNSAFE = {"sync", "structures", "papers", "import"}
# These crates use no other crate of this repository.
LOWEST = {"sync", "import"}
# The one file outside `UNSAFE` with unsafe code: it passes pointers from Python to `import`.
CAPSULES = RUST / "python" / "src" / "arrow" / "capsule.rs"
# The benchmarks. No other crate uses this crate, and the tests below ignore it.
BENCHES = "benches"
# The folders of the bindings, from the bottom up, and the one file next to them.
FLOORS = ["interpreter", "arrow", "inputs", "operators", "queries"]
BESIDE_THE_FLOORS = {"memory.rs"}
# The crate of the published algorithms, and the one file that refers to them.
PAPERS = "papers"
REGISTRY = ("tidegate", "query/published.rs")
# Folders of `papers` with unsafe code: structures that threads share without locks.
UNSAFE_PAPERS = {"hive", "row_gate"}
# A test module that is declared, and one that is defined at the end of its file.
TESTS_BESIDE = re.compile(
    r"^ *#\[cfg\((?:all\()?test\b.*\)\]\n(?: *#\[.*\]\n)* *(?:pub(?:\(.*\))? )?mod \w+;",
    re.MULTILINE,
)
TESTS_WITHIN = re.compile(
    r"^#\[cfg\((?:all\()?test\b.*\)\]\n(?:#\[.*\]\n)*(?:pub(?:\(.*\))? )?mod \w+ \{", re.MULTILINE
)
# The main functions and types of the crates.
ENTRANCES = re.compile(r"\w*join|aggregate\w*|merge|\w*Join|Streaming\w+|Aggregation|MergeStreams")
# Python files that parse a duration or a condition. Never extend this list. The command parses
# `--checkpoint`, which is not passed to native code.
READERS_OF_TEXTS = {"cli/commands/parsing.py"}
# Folders with a cycle of more than three files. Each is a published algorithm whose parts share the
# state of one join.
KNOWN_CIRCLES = {"handshake", "index_tasks"}
# Private types that have the same name in several files, because they have the same meaning.
SAME_MEANING = {
    "Avx2": "the instructions of a processor",
    "Avx512": "the instructions of a processor",
    "Portable": "the instructions of any processor",
    "Scratch": "reusable memory of one thread",
    "Epoch": "the rows of an epoch in an algorithm's layout",
    "Session": "adjacent rows of a key",
    "Node": "a node of a published structure",
}
# Type names are nouns. These end like participles but are allowed, each for the given reason.
NOUNS = {
    "Closed": "a public option: which ends of an interval belong to it",
    "Feed": "a noun",
    "Ring": "a noun",
    "Rolling": "the public name of the operator for rolling windows",
    "Rounding": "a noun",
    "Sliding": "a public option: the sliding windows of a band join",
    "Stopped": "an error without a value: `Result<Rows, Stopped>` reads as a sentence",
    "UserDefined": "the usual term for a function that users write",
}
# Irregular participles.
IRREGULAR = (
    "AddedUp|Begun|Broken|Built|Chosen|Done|Drawn|Driven|Found|Given|Gone|Held|Kept|Known|Led|Lent|"
    "Lost|Made|Met|Open|Seen|Sent|Shown|Sought|Spent|Taken|Told|Unwritten|Woven|Written"
)
JOINS = "rust/tidegate/src/stream/join/mod.rs"
AGGREGATIONS = "rust/tidegate/src/stream/aggregate/mod.rs"
POOL = "rust/structures/src/memory/pool.rs"
PAGES = "rust/structures/src/memory/pages.rs"
GATE_ROWS = "rust/tidegate/src/stream/intake/rows.rs"
INTERRUPT = "rust/python/src/interpreter/interrupt.rs"
ROW_GATE = "rust/papers/src/row_gate"
SENT_WHOLE = "python/tidegate/spark/driver/whole.py"
OPTIONS = "python/tidegate/cli/commands"
# Numbers in prose: the document, its text, the file and the name of the constant that it quotes,
# and the unit.
QUOTED = [
    (JOINS, "about {} rows at most (`EPOCH_ROWS`)", JOINS, "EPOCH_ROWS", 1),
    (AGGREGATIONS, "about {} rows at most (`EPOCH_ROWS`)", AGGREGATIONS, "EPOCH_ROWS", 1),
    ("DESIGN.md", "about {} at a time", JOINS, "EPOCH_ROWS", 1),
    (PAGES, "With {} KiB pages", POOL, "PAGE", 1 << 10),
    (PAGES, "requests {} MiB pages", POOL, "HUGE_PAGE", 1 << 20),
    ("DESIGN.md", "With {} KiB pages", POOL, "PAGE", 1 << 10),
    ("DESIGN.md", "keeps up to {} MiB", POOL, "POOL_BYTES", 1 << 20),
    ("DESIGN.md", "keeps up to {} GiB more", POOL, "LENT_BYTES", 1 << 30),
    (INTERRUPT, "signals every {} ms", INTERRUPT, "PATIENCE", 1),
    (f"{ROW_GATE}/README.md", "({} nodes", f"{ROW_GATE}/reclaim.rs", "NODES_BETWEEN", 1),
    (
        "python/tidegate/_tidegate.pyi",
        "each row has an overhead of {} bytes.",
        GATE_ROWS,
        "ROW_BYTES",
        1,
    ),
    (
        "python/tidegate/_tidegate.pyi",
        "Each row adds {} bytes of overhead",
        GATE_ROWS,
        "ROW_BYTES",
        1,
    ),
    ("docs/spark.md", "One side is small (at most {} MB)", SENT_WHOLE, "LIMIT", 1 << 20),
    ("python/tidegate/spark/__init__.py", "takes up at most {} MB", SENT_WHOLE, "LIMIT", 1 << 20),
    (f"{OPTIONS}/options.py", 'show_default="{}s"', f"{OPTIONS}/parsing.py", "CHECKPOINT_S", 1),
]


def sources(crate: str) -> dict[Path, str]:
    """Return the code of a crate without comments; a crate has at least a `lib.rs`."""
    files = {path: without_comments(path) for path in sorted((RUST / crate / "src").rglob("*.rs"))}
    assert RUST / crate / "src" / "lib.rs" in files
    return files


def without_comments(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text(encoding="utf-8"))


def without_tests(crate: str) -> dict[str, str]:
    """Return the code of a crate without comments and tests, by the path below `src`."""
    found = {path.relative_to(RUST / crate / "src"): text for path, text in sources(crate).items()}
    return {
        path.as_posix(): TESTS_WITHIN.split(TESTS_BESIDE.sub("", text))[0]
        for path, text in found.items()
        if path.name != "tests.rs" and "tests" not in path.parts
    }


def texts_of_the_bindings() -> dict[str, str]:
    """Return the code of the crate `python` without comments, by the path below `src`."""
    src = RUST / "python" / "src"
    return {path.relative_to(src).as_posix(): text for path, text in sources("python").items()}


def rooms(crate: str) -> set[str]:
    """Return the folders of a crate that are modules, at any depth, except those of tests."""
    src = RUST / crate / "src"
    found = {path.parent.relative_to(src) for path in src.rglob("mod.rs")}
    return {path.as_posix() for path in found if "tests" not in path.parts}


def beside(crate: str) -> set[str]:
    """Return the files next to a crate's `lib.rs`, except those of tests."""
    return {path.name for path in (RUST / crate / "src").glob("*.rs")} - {"lib.rs", "tests.rs"}


def module(path: str) -> tuple[str, ...]:
    *folders, name = path.removesuffix(".rs").split("/")
    return (*folders,) if name in {"mod", "lib"} else (*folders, name)


def arrows(crate: str) -> set[tuple[str, str]]:
    """Return pairs of folders or files next to `lib.rs`, of which the first uses the second."""
    names = {name.partition("/")[0] for name in rooms(crate)}
    names |= {name.removesuffix(".rs") for name in beside(crate)}
    found = set()
    for path, text in without_tests(crate).items():
        own = module(path)
        for match in re.finditer(r"(?<![\w:$])(crate|super(?:::super)*)::(\w+|\{[^;]*?\};)", text):
            up = match[1].count("super")
            base = own[: len(own) - up] if up else ()
            first = re.findall(r"[{,]\s*(\w+)", match[2]) if match[2][0] == "{" else [match[2]]
            found |= {(own[0], (*base, name)[0]) for name in first if own}
    return {(one, other) for one, other in found if one != other and {one, other} <= names}


def manifest(crate: str) -> dict:
    return tomllib.loads((RUST / crate / "Cargo.toml").read_text(encoding="utf-8"))


def dependencies(crate: str) -> set[str]:
    found = manifest(crate)
    assert found["package"]["name"].startswith("tidegate")
    return found.get("dependencies", {}).keys() | found.get("build-dependencies", {}).keys()


def test_the_rooms_are_these():
    assert {path.parent.name for path in RUST.glob("*/Cargo.toml")} == {*CRATES, BENCHES}


def test_cargo_bench_runs_the_benches_and_nothing_else():
    """Plain `cargo bench` must work, so crates without benches disable them."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert "default-members" not in workspace
    for crate in CRATES:
        assert manifest(crate)["lib"]["bench"] is False
    for bench in manifest(BENCHES)["bench"]:
        assert bench["harness"] is False


def test_criterion_is_for_the_benches():
    """As a dependency of other crates, it would also be compiled for their tests."""
    for crate in CRATES:
        assert "criterion" not in manifest(crate).get("dev-dependencies", {})
    assert "criterion" in manifest(BENCHES)["dev-dependencies"]


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_uses_only_those_below_it(crate):
    names = {manifest(other)["package"]["name"]: other for other in CRATES}
    below = CRATES[: CRATES.index(crate)]
    used = {names[name] for name in dependencies(crate) if name in names}
    assert used <= set(below)
    assert bool(used) != (crate in LOWEST)


@pytest.mark.parametrize("crate", CRATES)
def test_unsafe_code_is_in_four_crates_and_a_file(crate):
    files = sources(crate)
    if crate in UNSAFE:
        return
    unsafe = {path for path, text in files.items() if re.search(r"\bunsafe\b", text)}
    assert unsafe == ({CAPSULES} if crate == "python" else set())
    root = files[RUST / crate / "src" / "lib.rs"]
    assert re.search(r"#!\[(forbid|deny)\(unsafe_code\)\]", root), f"{crate}: lib.rs allows unsafe"


@pytest.mark.parametrize("crate", sorted(UNSAFE - {"sync"}))
def test_unsafe_code_exists_where_it_may(crate):
    assert any(re.search(r"\bunsafe\b", text) for text in sources(crate).values())


def test_unsafe_code_of_papers_is_in_two_rooms():
    unsafe = {
        path for path, text in without_tests(PAPERS).items() if re.search(r"\bunsafe\b", text)
    }
    assert {path.partition("/")[0] for path in unsafe} == UNSAFE_PAPERS
    assert rooms(PAPERS) > UNSAFE_PAPERS


def test_only_sync_names_atomics():
    naming = re.compile(
        r"\b(std|core)::sync::(atomic\b|\{[^;]*\batomic\b)|\bloom::|\bcrossbeam_utils\b"
    )
    assert any(naming.search(text) for text in sources("sync").values())
    for crate in CRATES[1:]:
        assert not [path for path, text in sources(crate).items() if naming.search(text)]
        assert not dependencies(crate) & {"crossbeam-utils", "crossbeam-epoch", "loom"}


def test_rows_of_streams_ask_for_the_memory_of_copies_and_sorts():
    # `unzip` and stable sorts allocate memory proportional to the row count. A failed allocation
    # aborts the process. Rows are stored in columns, or in a vector with one of these names.
    unannounced = re.compile(r"\.unzip\(\)|\b(?:rows|order)\.sort(?:_by|_by_key)?\(")
    rooms = [ROOT / "rust/operators/src/rows", ROOT / "rust/tidegate/src/stream"]
    found = {
        file.name: unannounced.findall(file.read_text(encoding="utf-8").split("#[cfg(test)]")[0])
        for room in rooms
        for file in room.rglob("*.rs")
    }
    # Only `sort_by_key` announces its sort buffer first.
    assert {name: calls for name, calls in found.items() if calls} == {
        "reorder.rs": ["rows.sort_by_key("]
    }


def test_only_the_driver_starts_threads():
    starting = re.compile(r"\bthread::(spawn|scope|Builder)\b|\bBuilder::new\(\)\.name\b")
    operators = RUST / "operators" / "src"
    driver = [operators / "driver.rs", operators / "driver" / "start.rs"]
    assert all(starting.search(without_comments(path)) for path in driver)
    for crate in CRATES[2:]:
        for path, text in sources(crate).items():
            # Tests may start threads.
            if path not in driver and "tests" not in path.with_suffix("").parts:
                product = re.split(r"#\[cfg\((?:all\()?test\b", text)[0]
                assert not starting.search(product), path


def test_only_the_python_crate_knows_python():
    assert "pyo3" in dependencies("python")
    for crate in CRATES[:-1]:
        assert not [name for name in dependencies(crate) if name.startswith(("pyo3", "numpy"))]
        assert not [path for path, text in sources(crate).items() if re.search(r"\bpyo3\b", text)]


def test_arrow_data_comes_through_one_file_which_checks_it():
    importing = re.compile(r"\btidegate_import\b|\bcapsule::(stream|batch)\b")
    types = "ArrowStream|UnopenedStream|UnreadBatch"
    values = re.compile(rf"\btidegate_import::(\{{[^}}]*)?\b({types})\b")
    code = texts_of_the_bindings()
    assert {name for name, text in code.items() if importing.search(text)} == {
        # Pointers, error messages, and the initialization of the module.
        *("arrow/capsule.rs", "interpreter/error.rs", "lib.rs"),
        "arrow/import.rs",
    }
    assert {name for name, text in code.items() if values.search(text)} == {
        "arrow/capsule.rs",
        "arrow/import.rs",
    }
    # The batches of `UncheckedRows` are private.
    text = code["arrow/import.rs"]
    assert re.search(r"struct UncheckedRows \{[^}]*\n    batches: Vec<RecordBatch>", text)
    assert "pub(crate) fn next_unchecked" not in text


# Files in which pyarrow imports rows from a DuckDB relation or from polars. These rows are then
# passed to `checked` or to a native function.
IMPORTS = {"io/open_tables.py": 1}


def test_python_computes_with_checked_rows_alone():
    package = ROOT / "python" / "tidegate"
    code = {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*.py"))
    }
    importing = re.compile(r"\bfrom_stream\(|\b_import_from_c\w*\(")
    counts = {name: len(importing.findall(text)) for name, text in code.items()}
    assert {name: count for name, count in counts.items() if count} == IMPORTS
    # Calls that read rows batch by batch.
    few = re.compile(r"(?<!def )\bfew_of\(|\.few\(")
    allowed = {"self.few(self.schema.names, STREAM_BATCH_ROWS)"}
    found = 0
    for name, text in code.items():
        if name.startswith("spark/"):
            continue
        for use in few.finditer(text):
            line = text[text.rfind("\n", 0, use.start()) : text.index("\n", use.end())]
            after = text[use.end() : use.end() + 200]
            assert (
                "checked(" in line or any(one in line for one in allowed) or "checked(" in after
            ), f"{name}: {line.strip()}"
            found += 1
    assert found > 4


def test_threads_come_back_to_the_interpreter_in_one_file():
    returning = re.compile(r"\.detach\(|\bPython::(try_)?attach\(")
    code = texts_of_the_bindings()
    # Setting the cause of an error requires an attached thread.
    assert {name for name, text in code.items() if returning.search(text)} == {
        "interpreter/error.rs",
        "interpreter/threads.rs",
    }
    assert code["interpreter/error.rs"].count("Python::attach(") == 1


def test_no_guard_of_an_operator_leaves_its_closure():
    for path, text in sources("python").items():
        assert not re.search(r"ArcMutexGuard|lock_arc", text), path


@pytest.mark.parametrize("crate", ["sync", "structures", "operators", "papers"])
def test_kernels_know_nothing_of_arrow(crate):
    assert not [name for name in dependencies(crate) if name.startswith("arrow")]
    assert not [path for path, text in sources(crate).items() if re.search(r"\barrow_\w+", text)]
    assert any(name.startswith("arrow") for name in dependencies("tidegate"))


def test_papers_are_named_in_one_file():
    """Default calls must not depend on algorithms that only serve as a comparison."""
    naming = re.compile(r"\btidegate_papers\b")
    found = {
        (crate, path)
        for crate in CRATES
        for path, text in without_tests(crate).items()
        if naming.search(text)
    }
    assert found == {REGISTRY}
    name = manifest(PAPERS)["package"]["name"]
    assert {crate for crate in CRATES if name in dependencies(crate)} == {REGISTRY[0]}


@pytest.mark.parametrize("crate", ["structures", "operators"])
def test_what_papers_are_made_of_does_not_know_them(crate):
    """Their tests must not refer to papers either, because their types would be compiled twice."""
    assert dependencies(PAPERS) >= {manifest(crate)["package"]["name"]}
    found = manifest(crate)
    assert "tidegate-papers" not in found["dependencies"].keys() | found["dev-dependencies"].keys()
    texts = [path.read_text(encoding="utf-8") for path in (RUST / crate).rglob("*.rs")]
    assert texts
    assert not [text for text in texts if re.search(r"\btidegate_papers\b|::papers\b", text)]


@pytest.mark.parametrize(
    ("crate", "one"),
    [
        ("structures", ("simd", "memory")),
        ("operators", ("band", "rows")),
        ("papers", ("split_join", "stages")),
        ("tidegate", ("batch", "query")),
        ("import", ("array", "node")),
        ("sync", ("ring", "atomic")),
        ("python", ("arrow", "interpreter")),
    ],
)
def test_no_rooms_use_each_other(crate, one):
    """The modules also form no longer cycle, so each can be read after those that it uses."""
    found = arrows(crate)
    assert one in found
    uses = {room: {other for by, other in found if by == room} for room, _ in found}
    list(TopologicalSorter(uses).static_order())  # This raises CycleError, which names the cycle.


def test_a_signpost_ties_nothing_and_an_item_of_the_front_ties():
    texts = {
        "lib.rs": "mod room;\npub use room::Shown;\n",
        "room/mod.rs": "mod shown;\npub use shown::Shown;\npub struct Shared;\n",
        "room/shown.rs": "use super::Shared;\npub struct Shown(Shared);\n",
    }
    uses = {("room/shown.rs", "room/mod.rs")}
    assert rust_imports.Crate(texts).imports() == uses
    texts["room/mod.rs"] += "fn work(shown: &Shown) {}\n"
    uses |= {("room/mod.rs", "room/shown.rs")}
    assert rust_imports.Crate(texts).imports() == uses
    assert rust_imports.circles(uses) == [{"room/mod.rs", "room/shown.rs"}]
    assert rust_imports.folder_circles(uses) == []
    texts["room/deep/mod.rs"] = "pub(crate) fn deep() { super::work(&crate::Shown) }\n"
    texts["room/shown.rs"] += "fn go() { super::deep::deep() }\n"
    uses = rust_imports.Crate(texts).imports()
    assert rust_imports.folder_circles(uses) == [{"room/deep/", "room/mod.rs", "room/shown.rs"}]


# Each crate has at least this many files and imports.
SEEN = {
    "sync": (10, 10),
    "structures": (40, 80),
    "operators": (100, 400),
    "papers": (40, 100),
    "tidegate": (100, 600),
    "import": (5, 10),
    "python": (20, 100),
}


def imports(crate: str) -> set[tuple[str, str]]:
    """Return which files each file of a crate uses, as `rust_imports` defines it."""
    files = without_tests(crate)
    found = rust_imports.Crate(files).imports()
    least_files, least_imports = SEEN[crate]
    assert len(files) >= least_files
    assert len(found) >= least_imports
    return found


@pytest.mark.parametrize("crate", CRATES)
def test_no_folders_use_each_other(crate):
    """At any depth, no cycle of imports passes through a folder.

    The files and the folders in a folder are compared with each other, each folder as one unit. A
    folder and a file next to it therefore do not use each other. A folder and the
    front of the folder that contains it do not either, unless the front only re-exports items.
    """
    assert rust_imports.folder_circles(imports(crate)) == []


def test_the_folders_of_the_bindings_import_one_way():
    """Each folder only uses those before it in `FLOORS`, even in exported macros."""
    assert {name for name in rooms("python") if "/" not in name} == {*FLOORS}
    assert beside("python") == BESIDE_THE_FLOORS
    files = without_tests("python").items()
    texts = {path: text.replace("$crate::", "crate::") for path, text in files}
    found = {
        (one.partition("/")[0], other.partition("/")[0])
        for one, other in rust_imports.Crate(texts).imports()
        if one != "lib.rs"
    }
    assert {("queries", "operators"), ("operators", "inputs")} <= found
    downwards = {(one, other) for at, one in enumerate(FLOORS) for other in FLOORS[: at + 1]}
    assert found - downwards == {("memory.rs", "interpreter")}


@pytest.mark.parametrize("crate", CRATES)
def test_no_more_than_three_files_use_each_other(crate):
    """Two or three files may belong together, but more cannot be read one by one."""
    found = [circle for circle in rust_imports.circles(imports(crate)) if len(circle) > 3]
    folders = {frozenset(Path(file).parent.name for file in circle) for circle in found}
    assert folders <= {frozenset({known}) for known in KNOWN_CIRCLES}, found


@pytest.mark.parametrize(
    ("option", "files"),
    [
        ("suffix", {"queries/join.rs"}),
        ("how", {"queries/join.rs"}),
        ("batch_rows", {"queries/join.rs", "queries/rolling.rs"}),
        ("session", {"queries/aggregate.rs"}),
    ],
)
def test_an_option_is_declared_in_one_file(option, files):
    """A single declaration adds an option to every form of a join or aggregation."""
    declaring = re.compile(rf"\b{option}=")
    found = {path for path, text in texts_of_the_bindings().items() if declaring.search(text)}
    assert found == files


def test_joins_of_rows_share_one_log():
    """All these joins must agree on a row's number, its offset and its first match."""
    files = without_tests("operators")
    published = without_tests(PAPERS)
    joins = {path for path, text in files.items() if re.search(r"\bRowJoin<.*> for\b", text)}
    assert joins >= {"interval/streaming/mod.rs", "band/index/mod.rs", "window/scale/mod.rs"}
    assert not {path for path in joins if "RowLog::new" not in files[path]}
    joins = {path for path, text in published.items() if re.search(r"\bRowJoin<.*> for\b", text)}
    assert joins >= {"scale_oij/mod.rs", "scale_gates/mod.rs", "handshake/sliding.rs"}
    assert not {path for path in joins if "RowLog::new" not in published[path]}
    assert {path for path, text in files.items() if "settled" in text} == {"rows/log.rs"}


def test_tables_do_without_streams_and_few_streams_run_tables():
    found = arrows("tidegate")
    shared = {room for one, room in found if one == "stream"} & {
        room for one, room in found if one == "batch"
    }
    assert {"aggregate", "columns", "query", "results"} <= shared
    assert ("batch", "stream") not in found
    files = without_tests("tidegate").items()
    by_tables = {path for path, text in files if re.search(r"\bcrate::batch\b", text)}
    of_streams = {
        "stream/join/asof.rs",
        "stream/aggregate/counted.rs",
        "stream/aggregate/whole.rs",
        "stream/rolling.rs",
    }
    assert {path for path in by_tables if path.startswith("stream/")} == of_streams


NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven"]


def test_the_tactics_are_those_that_the_page_lists():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = re.search(r"There are (\w+) tactics:\n\n((?:\| .*\n)+)", text)
    assert told, "ARCHITECTURE.md does not list the tactics"
    listed = re.findall(r"^\| `(\w+)` \| .* \| `([^`]+)` \|$", told[2], re.MULTILINE)
    found = {
        (name, path)
        for path, code in without_tests("tidegate").items()
        for name in re.findall(r"\bimpl(?:<[^>]*>)? Tactic for (\w+)", code)
    }
    assert ("MergeTactic", "stream/merge/mod.rs") in found
    assert {*listed} == found
    assert told[1] == NUMBERS[len(found)] == NUMBERS[len(listed)]


# Crates whose rooms are listed in the docs of their `lib.rs`, not in ARCHITECTURE.md.
LISTED_IN_LIB = {"papers", "python"}


def module_docs(path: Path) -> str:
    """Return the module docs of a Rust file as plain text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line[3:].strip() for line in lines if line.startswith("//!"))


def test_every_room_next_to_lib_is_on_the_map():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tables = dict(
        re.findall(r"^\| `rust/(\w+)/src/` \|.*\n\| --- .*\n((?:\| .*\n)+)", text, re.MULTILINE)
    )
    assert {"structures", "operators", "tidegate"} <= tables.keys()
    for crate in LISTED_IN_LIB:
        assert re.search(rf"^\| `rust/{crate}` \| .*`lib.rs` lists its rooms", text, re.MULTILINE)
        tables[crate] = module_docs(RUST / crate / "src" / "lib.rs")
    assert tables.keys() == {crate for crate in CRATES if rooms(crate)}
    for crate, table in tables.items():
        told = re.findall(r"^\| \[?`([^`]+)`\]? \|", table, re.MULTILINE)
        next_to_lib = {f"{room}/" for room in rooms(crate) if "/" not in room} | beside(crate)
        if crate == "papers":
            # Its table lists modules by name.
            next_to_lib = {name.removesuffix("/").removesuffix(".rs") for name in next_to_lib}
        assert sorted(told) == sorted(next_to_lib)


def test_every_other_room_is_in_the_docs_of_its_folder():
    """The docs of each module list exactly its submodules."""
    seen = set()
    for crate in CRATES:
        inner = {room for room in rooms(crate) if "/" in room}
        for outer in {room.rpartition("/")[0] for room in inner}:
            docs = module_docs(RUST / crate / "src" / outer / "mod.rs")
            told = {f"{outer}/{name}" for name in re.findall(r"`(\w+)/`", docs)}
            assert told == {room for room in inner if room.rpartition("/")[0] == outer}
            seen |= {f"{crate}/{room}" for room in told}
    assert seen == {f"{crate}/{room}" for crate in CRATES for room in rooms(crate) if "/" in room}
    assert {"structures/gate/block", "operators/aggregate/folds/tables"} <= seen


def types(crate: str) -> Counter[str]:
    """Count the files of a crate that declare each type name, public or private."""
    declaring = re.compile(
        r"^ *(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait) (\w+)"
        r"|^pub(?:\(crate\))? type (\w+)",
        re.MULTILINE,
    )
    texts = without_tests(crate).values()
    return Counter(name for text in texts for name in {a or b for a, b in declaring.findall(text)})


@pytest.mark.parametrize(
    ("crate", "known"),
    [
        ("sync", "Stop"),
        ("structures", "BlockGate"),
        ("operators", "Matches"),
        ("papers", "PimTree"),
        ("tidegate", "Table"),
        ("import", "UnopenedStream"),
        ("python", "JoinPlan"),
    ],
)
def test_a_type_name_is_declared_once_a_crate(crate, known):
    found = types(crate)
    assert found[known] == 1
    assert not {name for name, times in found.items() if times > 1} - SAME_MEANING.keys()


def test_no_exception_to_one_name_is_stale():
    assert {name for crate in CRATES for name, times in types(crate).items() if times > 1} >= (
        SAME_MEANING.keys()
    )


# A longer file, without its tests, states the reason in its module docs.
LONG_FILE = 600


def test_a_long_file_says_why():
    """A long function also states its reason, in Clippy's `expect`."""
    package = ROOT / "python" / "tidegate"
    files = [*RUST.glob("*/src/**/*.rs"), *package.rglob("*.py"), *package.rglob("*.pyi")]
    files = [file for file in files if "tests" not in file.parts and file.stem != "tests"]
    texts = [TESTS_WITHIN.split(file.read_text(encoding="utf-8"))[0] for file in files]
    long = {
        file: text for file, text in zip(files, texts, strict=True) if text.count("\n") > LONG_FILE
    }
    assert RUST / "tidegate" / "src" / "query" / "aggregate" / "plan.rs" in long
    unexplained = [file for file, text in long.items() if "Long because" not in text[:4000]]
    assert not unexplained


def participles(crate: str) -> set[str]:
    """Return the names of a crate's types that are participles, including private types."""
    declared = re.compile(
        r"^ *(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) "
        rf"((?:[A-Z]\w*(?:ed|ing)|{IRREGULAR})\b)",
        re.MULTILINE,
    )
    return {name for text in without_tests(crate).values() for name in declared.findall(text)}


@pytest.mark.parametrize("crate", CRATES)
def test_types_are_named_by_nouns(crate):
    """`Found` describes what happened to a value; `FoundPairs` describes what the value is."""
    assert not participles(crate) - NOUNS.keys()


def test_no_exception_to_nouns_is_stale():
    assert set().union(*map(participles, CRATES)) >= NOUNS.keys()


def constant(file: str, name: str) -> int:
    """Return the value of a constant outside tests; the first of several is for Linux."""
    text = (ROOT / file).read_text(encoding="utf-8")
    declared = rf"^(?:pub(?:\(crate\))? )?(?:const )?{name}(?:: \w+)? = (.+)"
    found = re.search(declared, text, re.MULTILINE)
    assert found, f"{file} has no {name}"
    value = re.sub(r"if cfg!.* else \{ (.*) \}|\w+::from_millis\((.*)\)", r"\1\2", found[1])
    number, _, shift = value.rstrip(";").partition(" << ")
    return int(float(number.replace("_", ""))) << int(shift or 0)


@pytest.mark.parametrize(("document", "words", "file", "name", "unit"), QUOTED)
def test_a_number_in_prose_is_that_of_the_code(document, words, file, name, unit):
    path = ROOT / document
    written = module_docs(path) if path.suffix == ".rs" else path.read_text(encoding="utf-8")
    text = " ".join(written.split())
    before, _, after = words.partition("{}")
    numbers = re.findall(rf"{re.escape(before)}([\d,]+){re.escape(after)}", text)
    assert numbers, f"{document} does not say `{words}`"
    assert {*numbers} == {f"{constant(file, name) // unit:,}"}


@pytest.mark.parametrize("crate", ["operators", "papers", "tidegate"])
def test_an_entrance_to_a_crate_has_an_example(crate):
    declaring = re.compile(r"((?:^///.*\n)*)(?:^#\[.*\n)*^pub (?:fn|struct) (\w+)\b", re.MULTILINE)
    src = RUST / crate / "src"
    docs = {
        f"{path.relative_to(src).as_posix()}: {name}": text
        for path in src.rglob("*.rs")
        for text, name in declaring.findall(path.read_text(encoding="utf-8"))
        if ENTRANCES.fullmatch(name)
    }
    # Every second fence opens a block. Blocks with an info string such as `text` do not run.
    fences = {name: re.findall(r"^/// ```(.*)$", text, re.MULTILINE) for name, text in docs.items()}
    shown = {name for name, found in fences.items() if "" in found[::2]}
    assert any("join" in name for name in shown)
    assert not docs.keys() - shown


def test_a_query_runs_nothing():
    running = re.compile(r"\b(driver|gather|Driver)\b|\bmatches::")
    files = without_tests("tidegate")
    found = {path for path, text in files.items() if running.search(text)}
    assert "query/plan.rs" in files
    assert {"batch/join.rs", "stream/operator/mod.rs"} <= found
    assert not {path for path in found if path.startswith("query/")}


def test_python_reads_no_durations_and_no_conditions():
    """Python passes them on, so that a single place defines their meaning."""
    package = ROOT / "python" / "tidegate"
    duration = r"total_seconds\(|/ ?(dt\.)?timedelta\(|timedelta64\[|[\"'](ms|us)[\"']: [\dF]"
    condition = r"\._text\b|\bwhere\.(split|find|replace)\(| in where\b|[\"'](left|right)\.[\"'] in"
    reading = re.compile(f"{duration}|{condition}")
    files = {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
    }
    found = {path for path, text in files.items() if reading.search(text)}
    # `expressions.py` creates the strings of conditions.
    assert found - {"expressions.py"} == READERS_OF_TEXTS


def test_only_the_spark_part_imports_pyspark():
    package = ROOT / "python" / "tidegate"
    importing = re.compile(r"^\s*(import|from) pyspark\b", re.MULTILINE)
    found = {path for path in package.rglob("*.py") if importing.search(path.read_text("utf-8"))}
    assert found
    assert {path.relative_to(package).parts[0] for path in found} == {"spark"}


def test_py4j_is_optional():
    """`pyspark-client`, which users of Spark Connect install, comes without py4j."""
    package = ROOT / "python" / "tidegate"
    importing = re.compile(r"^( *)(?:import|from) py4j\b", re.MULTILINE)
    found = {
        path.name: importing.findall(path.read_text("utf-8")) for path in package.rglob("*.py")
    }
    assert {name: indents for name, indents in found.items() if indents} == {"java.py": ["    "]}


def test_importing_tidegate_imports_no_data_library():
    script = (
        "import sys, tidegate; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "tidegate" in loaded
    assert not loaded & {"pyspark", "pyarrow", "pandas", "polars", "duckdb", "typer", "tqdm"}


# Types of the package that native code recognizes among its arguments.
RECOGNISED = {"tidegate.agg", "tidegate.expressions", "tidegate.windows"}


def test_native_code_imports_nothing_of_the_package():
    """The package passes the functions that native code calls (`interpreter/callbacks.rs`)."""
    importing = re.compile(r'(?:import\([^"]*|: &str = )"(tidegate\.[\w.]+)"')
    named = {name for text in sources("python").values() for name in importing.findall(text)}
    assert named == RECOGNISED
