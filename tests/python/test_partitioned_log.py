"""The recipe for partitions of a log: no kill -9 loses or duplicates a row.

`KILLS=200` in the environment kills 200 runs, which takes some minutes; each kill hits a run that
has not ended.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import campaign

RECIPE = Path(__file__).parents[2] / "python" / "examples" / "partitioned_log.py"
KILLS = int(os.environ.get("KILLS", campaign.tries(6)))

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes")


def start(folder: Path, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(RECIPE), str(folder), "--pause", str(pause)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE)


def written(folder: Path) -> Counter[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "pairs.sqlite")) as database:
        return Counter(database.execute("select * from pairs"))


def expected(folder: Path) -> Counter[tuple[Any, ...]]:
    """Compute the pairs by a loop over the log, which has no late rows."""
    log = {path.stem: path.read_text().splitlines() for path in (folder / "log").iterdir()}
    rows = {name: [json.loads(line) for line in lines] for name, lines in log.items()}
    orders = rows["orders-0"] + rows["orders-1"]
    pairs: Counter[tuple[Any, ...]] = Counter()
    for paid in rows["payments-0"]:
        items = [
            order["item"]
            for order in orders
            if order["customer"] == paid["customer"] and -60 <= order["ts"] - paid["ts"] <= 0
        ]
        for item in items or [None]:
            pairs[paid["ts"], paid["customer"], paid["amount"], item] += 1
    return pairs


def test_a_run_that_nobody_kills_has_all_pairs(tmp_path: Path):
    told, _ = start(tmp_path, 0).communicate(timeout=120)
    pairs = expected(tmp_path)
    assert pairs.total() > 1_000
    assert written(tmp_path) == pairs
    assert told == f"{pairs.total()} pairs\n"


def test_runs_that_are_killed_have_the_same_pairs(tmp_path: Path):
    """Runs of one log are killed until a run has ended; then another log follows."""
    draw = campaign.rng("kills of the recipe")
    kills, logs, gone_on = 0, 0, 0
    while kills < KILLS or gone_on == 0:
        folder = tmp_path / str(logs)
        # The limit grows each time, so that a run ends even on the slowest machine.
        most, told = 1.2, ""
        while not told:
            process = start(folder, 0.02)
            try:
                told, _ = process.communicate(timeout=draw.uniform(0.1, most))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills, most = kills + 1, 1.2 * most
                database = folder / "pairs.sqlite"
                # Some kills precede the first transaction.
                gone_on += database.exists() and database.stat().st_size > 0
            else:
                assert process.returncode == 0
        assert written(folder) == expected(folder)
        assert told == f"{written(folder).total()} pairs\n"
        logs += 1
