"""The architecture's invariants: each says what is absent, once it has found the rooms."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUST = ROOT / "rust"

# From the bottom up: a crate may use those before it.
CRATES = ["sync", "structures", "operators", "tidegate", "import", "python"]
UNSAFE = {"sync", "structures", "import"}
# These use no other crate of ours.
LOWEST = {"sync", "import"}
# The one file above them: it hands pointers from Python to `import`.
CAPSULES = RUST / "python" / "src" / "capsule.rs"
# Beside these, what measures them: no crate uses it, and the tests leave it out.
BENCHES = "benches"


def sources(crate: str) -> dict[Path, str]:
    """The code of a crate without comments; a crate has at least a `lib.rs`."""
    files = {path: without_comments(path) for path in sorted((RUST / crate / "src").rglob("*.rs"))}
    assert RUST / crate / "src" / "lib.rs" in files
    return files


def without_comments(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text(encoding="utf-8"))


def manifest(crate: str) -> dict:
    return tomllib.loads((RUST / crate / "Cargo.toml").read_text(encoding="utf-8"))


def dependencies(crate: str) -> set[str]:
    found = manifest(crate)
    assert found["package"]["name"].startswith("tidegate")
    return found.get("dependencies", {}).keys() | found.get("build-dependencies", {}).keys()


def test_the_rooms_are_these():
    assert {path.parent.name for path in RUST.glob("*/Cargo.toml")} == {*CRATES, BENCHES}


def test_the_tests_leave_the_benches_out():
    """Otherwise Criterion and all that shares features with it is compiled for them once more."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    rooms = {f"rust/{crate}" for crate in CRATES}
    assert {*workspace["default-members"]} == rooms | {"tests/fuzz"}
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
def test_unsafe_code_is_in_three_crates_and_a_file(crate):
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


def test_only_sync_names_atomics():
    naming = re.compile(
        r"\b(std|core)::sync::(atomic\b|\{[^;]*\batomic\b)|\bloom::|\bcrossbeam_utils\b"
    )
    assert any(naming.search(text) for text in sources("sync").values())
    for crate in CRATES[1:]:
        assert not [path for path, text in sources(crate).items() if naming.search(text)]
        assert not dependencies(crate) & {"crossbeam-utils", "crossbeam-epoch", "loom"}


def test_only_the_driver_starts_threads():
    starting = re.compile(r"\bthread::(spawn|scope|Builder)\b|\bBuilder::new\(\)\.name\b")
    driver = RUST / "operators" / "src" / "driver.rs"
    assert starting.search(without_comments(driver))
    for crate in CRATES[2:]:
        for path, text in sources(crate).items():
            # Tests may start threads of their own.
            if path != driver and "tests" not in path.parts:
                assert not starting.search(text.partition("#[cfg(test)]")[0]), path


def test_only_the_python_crate_knows_python():
    assert {"pyo3", "pyo3-arrow"} <= dependencies("python")
    for crate in CRATES[:-1]:
        assert not [name for name in dependencies(crate) if name.startswith(("pyo3", "numpy"))]
        assert not [path for path, text in sources(crate).items() if re.search(r"\bpyo3\b", text)]


@pytest.mark.parametrize("crate", ["sync", "structures", "operators"])
def test_kernels_know_nothing_of_arrow(crate):
    assert not [name for name in dependencies(crate) if name.startswith("arrow")]
    assert not [path for path, text in sources(crate).items() if re.search(r"\barrow_\w+", text)]
    assert any(name.startswith("arrow") for name in dependencies("tidegate"))


def test_only_the_spark_part_imports_pyspark():
    package = ROOT / "python" / "tidegate"
    importing = re.compile(r"^\s*(import|from) pyspark\b", re.MULTILINE)
    found = {path for path in package.rglob("*.py") if importing.search(path.read_text("utf-8"))}
    assert found
    assert {path.relative_to(package).parts[0] for path in found} == {"spark"}


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
