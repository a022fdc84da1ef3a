"""Scripts and settings of the repository: release notes, locked tools, counts of instructions."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / ".github" / "scripts"
WORKFLOWS = ROOT / ".github" / "workflows"
DESCRIBED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripts need a Unix shell")


def program(folder: Path, name: str, text: str) -> None:
    """Write a shell script that stands in for a program."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def run(command: list[str | Path], folder: Path, programs: Path | None = None):
    path = os.environ["PATH"]
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{path}" if programs else path}
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True
    )


CHANGELOG = """# Changelog

## [Unreleased]: 1.11.0

- soon

## [1.10.0] - 2026-02-01

- a [join](docs/joins.md#band-join)

### More

- a [site](https://example.org)

## [1.1.0] - 2025-01-01

## [1.0.0] - 2024-01-01

- first
"""


def notes(folder: Path, version: str, *arguments: str):
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "joins.md").touch()
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / "Cargo.toml").write_text(f'[workspace.package]\nversion = "{version}"\n')
    return run([sys.executable, SCRIPTS / "release_notes.py", *arguments], folder)


def test_release_notes_are_the_section_of_the_version(tmp_path):
    done = notes(tmp_path, "1.10.0", "v1.10.0", "https://host/us")
    assert done.stdout == (
        "- a [join](https://host/us/blob/v1.10.0/docs/joins.md#band-join)\n\n"
        "### More\n\n- a [site](https://example.org)\n"
    )
    assert notes(tmp_path, "1.0.0", "v1.0.0").stdout == "- first\n"


@pytest.mark.parametrize(
    ("version", "tag", "message"),
    [
        ("1.11.0", "v1.11.0", "no heading `## [1.11.0] - YYYY-MM-DD`"),
        ("1.1.0", "v1.1.0", "the section [1.1.0] of CHANGELOG.md is empty"),
        ("1.10.0", "v1.0.0", "the tag is v1.0.0, but Cargo.toml has version 1.10.0"),
        ("1.0.0", "1.0.0", "expected v1.0.0"),
    ],
)
def test_a_release_without_notes_is_refused(tmp_path, version, tag, message):
    done = notes(tmp_path, version, tag)
    assert done.returncode == 1
    assert message in done.stderr
    assert not done.stdout


def test_notes_are_checked_before_packages_are_published():
    workflow = (WORKFLOWS / "wheels.yml").read_text("utf-8")
    jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", workflow, re.MULTILINE))
    assert "release_notes.py" in jobs["sdist"]
    assert "needs: [wheels, sdist]\n" in jobs["publish"]
    assert "needs: publish\n" in jobs["release"]
    assert "release_notes.py" in jobs["release"]


def test_the_changelog_has_the_next_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version = re.escape(CARGO["version"])
    heading = rf"^## (\[Unreleased\]: {version}|\[{version}\] - \d{{4}}-\d\d-\d\d)$"
    assert re.search(heading, changelog, re.MULTILINE)


def locked() -> dict[str, set[str]]:
    """The versions of each package in the lock; some depend on Python or the system."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / ".github" / "requirements-dev.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, _, version = line.partition(";")[0].strip().partition("==")
            found.setdefault(name, set()).add(version)
    return found


def required() -> list[Requirement]:
    groups = DESCRIBED["dependency-groups"]
    extras = DESCRIBED["project"]["optional-dependencies"].values()
    # The benchmarks measure the newest versions of the peers.
    listed = [line for name, group in groups.items() if name != "bench" for line in group]
    listed += DESCRIBED["project"]["dependencies"] + [line for extra in extras for line in extra]
    return [Requirement(line) for line in listed if isinstance(line, str)]


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_a_tool_has_a_locked_version_that_fits(requirement):
    versions = locked()[canonicalize_name(requirement.name)]
    assert all(requirement.specifier.contains(version) for version in versions)


def test_tools_are_installed_with_locked_versions():
    lock = "requirements-dev.txt"
    for path in [SCRIPTS / "develop.sh", SCRIPTS / "install_for_tests.sh", WORKFLOWS / "site.yml"]:
        assert lock in path.read_text("utf-8"), path.name
    makefile = (ROOT / "Makefile").read_text("utf-8")
    installed = re.findall(r"^\tpip install.*--group (?!bench).*", makefile, re.MULTILINE)
    assert len(installed) > 1
    assert [line for line in installed if "--constraint $(LOCK)" not in line] == []
    assert f"LOCK := .github/{lock}\n" in makefile


def test_hooks_have_the_locked_versions():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    pinned = re.findall(r"\[([\w-]+)==(.*)\]", hooks)
    assert pinned
    assert [one for one in pinned if locked()[one[0]] != {one[1]}] == []


def test_the_oldest_rust_is_tested():
    tested = (WORKFLOWS / "test.yml").read_text("utf-8")
    assert re.findall(r'toolchain: "([\d.]+)"', tested) == [CARGO["rust-version"]]


def test_editors_write_what_the_formatters_write():
    settings = (ROOT / ".editorconfig").read_text("utf-8")
    width = re.search(
        r"^max_width = (\d+)$", (ROOT / "rustfmt.toml").read_text("utf-8"), re.MULTILINE
    )
    assert width is not None
    assert f"max_line_length = {width[1]}\n" in settings
    assert DESCRIBED["tool"]["ruff"]["line-length"] == int(width[1])


def test_labels_of_templates_exist():
    known = re.findall(r"name: ([\w ]+),", (ROOT / ".github" / "labels.yml").read_text("utf-8"))
    templates = list((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert templates
    for path in templates:
        label = re.search(r"^labels: (.*)$", path.read_text("utf-8"), re.MULTILINE)
        assert label is not None, path.name
        assert label[1] in known
    # Dependabot sets this label by default.
    assert "dependencies" in known
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"labelled `([\w ]+)`", contributing)
    assert named
    assert set(named) <= set(known)


@pytest.mark.parametrize(("python", "folder"), [("3.11", "cp311-cp311"), ("3.14t", "cp314-cp314t")])
def test_a_wheel_for_musl_is_tried_with_its_python(tmp_path, python, folder):
    program(tmp_path / "bin", "docker", "printf '%s\\n' \"$@\"")
    script = SCRIPTS / "try_wheel_alpine.sh"
    done = run([script, python, "dist/a.whl"], tmp_path, tmp_path / "bin")
    assert done.stdout.splitlines()[-2:] == [folder, "dist/a.whl"]


# Counts for a binary named `100` or so: 100 thousand instructions for each case that it has.
VALGRIND = """
for case in "$@"; do :; done
shift 3
echo "Testing $case"
echo "==1== Collected : 0" >&2
case $case in
    *100000*) echo "==2== Collected : 0" >&2 ;;
    *) echo "==2== Collected : $(cat "$1")000" >&2 ;;
esac
"""


@pytest.mark.parametrize(
    ("before", "after", "more", "failed"),
    [
        (100, 102, [], 0),
        (100, 104, [], 1),
        (100, 104, ["5"], 0),
        (100, 50, [], 0),
    ],
)
def test_more_instructions_fail(tmp_path, before, after, more, failed):
    program(tmp_path / "bin", "valgrind", VALGRIND)
    (tmp_path / "before").write_text(str(before))
    (tmp_path / "after").write_text(str(after))
    script = SCRIPTS / "instructions.py"
    done = run([sys.executable, script, "before", "after", *more], tmp_path, tmp_path / "bin")
    assert done.returncode == failed, done.stderr
    lines = done.stdout.splitlines()[2:]
    assert f"{before},000 | {after},000 | {after - before:+.2f} %" in lines[0]
    assert len([line for line in lines if f"{after},000" in line]) == 4


def test_a_case_that_is_removed_fails(tmp_path):
    program(tmp_path / "bin", "valgrind", VALGRIND)
    (tmp_path / "before").write_text("100")
    (tmp_path / "after").write_text("0")
    command = [sys.executable, SCRIPTS / "instructions.py", "before", "after"]
    done = run(command, tmp_path, tmp_path / "bin")
    assert done.returncode == 1, done.stderr
    assert "100,000 | 0 | +inf %" in done.stdout


def test_instructions_of_a_commit_are_compared_with_those_of_its_base(tmp_path):
    checkout = tmp_path / "checkout"
    checkout.mkdir()

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *arguments], check=True, cwd=checkout, capture_output=True)

    git("init")
    for count in ("100", "110"):
        (checkout / "count").write_text(count)
        git("add", "count")
        git("commit", "-m", count)
    built = json.dumps({"target": {"name": "interval_join"}, "executable": "$PWD/count"})
    other = json.dumps({"target": {"name": "tidegate_sync"}, "executable": None})
    lines = f"""cat <<LINES\n{other}\n{built}\n{{"reason": "build-finished"}}\nLINES"""
    program(tmp_path / "bin", "cargo", lines)
    program(tmp_path / "bin", "valgrind", VALGRIND)
    done = run([SCRIPTS / "instructions.sh", "HEAD~1"], checkout, tmp_path / "bin")
    assert done.returncode == 1
    assert "100,000 | 110,000 | +10.00 %" in done.stdout, done.stderr
    done = run([SCRIPTS / "instructions.sh", "HEAD~1", "11"], checkout, tmp_path / "bin")
    assert done.returncode == 0, done.stderr
    assert not (checkout / "target" / "instructions" / "base").exists()
