"""Creates the kept states of `--state`: `python tests/python/golden_states.py VERSION`.

Each is a folder with complete inputs, and with the state and the output of a run that had read half
of them. The file `wanted` contains the output of a single complete run.
"""

import os
import shutil
import sys
from pathlib import Path

from command_line import run, until
from following_run import Growing, command, counted, rows_of, stopped, wanted
from tidegate.cli.saved import Saved

FOLDER = Path(__file__).parents[1] / "data" / "golden" / "states"

# The query and the output of each kind. The kind `csv` has a CSV input.
KINDS = {
    "join-csv": ("join", "out.csv"),
    "join-arrow": ("join", "out.arrows"),
    "join-parts": ("join", "out/"),
    "aggregate": ("aggregate", "out.csv"),
}
CSV_ROWS = ["ts,k,v", *(f'{3 * n},"k{n % 7}",{n / 8}' for n in range(120))]
CSV = ["aggregate", "rows.csv", "--on", "ts", "--by", "k", "--size", "50", "--agg", "v=sum(v)"]
CSV += ["--follow", "-o", "out.csv", "--state", "state", "--checkpoint", "1ms"]


def make(folder: Path, query: str, out: str) -> None:
    """Create a folder of Arrow streams."""
    os.chdir(folder)
    growing = Growing(folder)
    growing.grow(30)
    growing.grow(30)
    result = stopped(command(query, out), lambda: until(lambda: counted(folder)))
    assert result.exit_code == 0, result.output
    growing.grow(60)
    growing.end()
    saved = Saved.load("state")
    assert saved is not None
    if not out.endswith("/"):
        # A killed run leaves no end mark.
        os.truncate(out, saved.output.position)
    rows = wanted(folder, query, out)
    (folder / "wanted").write_bytes(rows if isinstance(rows, bytes) else repr(rows).encode())


def make_csv(folder: Path) -> None:
    """Create a folder of CSV whose last line is incomplete."""
    os.chdir(folder)
    rows = folder / "rows.csv"
    rows.write_text("\n".join(CSV_ROWS[:61]) + '\n180,"k')

    def has_half() -> bool:
        saved = Saved.load("state")
        return saved is not None and saved.places[0].lines == 61

    assert stopped(CSV, lambda: until(has_half)).exit_code == 0
    half = (folder / "out.csv").read_bytes()
    rows.write_text("\n".join(CSV_ROWS) + "\n")
    kept = (folder / "state").read_bytes()
    run_csv(folder)
    shutil.copyfile("out.csv", "wanted")
    (folder / "out.csv").write_bytes(half)
    (folder / "state").write_bytes(kept)


def run_csv(folder: Path) -> None:
    """Run the command until it has read the last line."""

    def has_all() -> bool:
        saved = Saved.load("state")
        return saved is not None and saved.places[0].lines == len(CSV_ROWS)

    result = stopped(CSV, lambda: until(has_all))
    assert result.exit_code == 0, result.output


def go_on(folder: Path, kind: str) -> tuple[bytes, bytes]:
    """Resume from a state; return the output and the expected one."""
    if kind == "csv":
        run_csv(folder)
        return (folder / "out.csv").read_bytes(), (folder / "wanted").read_bytes()
    query, out = KINDS[kind]
    result = run(*command(query, out))
    assert result.exit_code == 0, result.output
    rows = rows_of(folder, out)
    found = rows if isinstance(rows, bytes) else repr(rows).encode()
    return found, (folder / "wanted").read_bytes()


if __name__ == "__main__":
    version = FOLDER / sys.argv[1]
    for kind, (query, out) in KINDS.items():
        (version / kind).mkdir(parents=True)
        make(version / kind, query, out)
    (version / "csv").mkdir()
    make_csv(version / "csv")
