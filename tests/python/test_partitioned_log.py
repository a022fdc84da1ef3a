"""The recipe for partitions of a log: after any kill -9 no row is lost or doubled.

`CAMPAIGN=33` in the environment makes some 300 kills, in some minutes.
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
KILLS = campaign.tries(9)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes")


def start(folder: Path, pause: float) -> subprocess.Popen[str]:
    command = [sys.executable, str(RECIPE), str(folder), "--pause", str(pause)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE)


def written(folder: Path) -> Counter[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "pairs.sqlite")) as database:
        return Counter(database.execute("select * from pairs"))


def expected(folder: Path) -> Counter[tuple[Any, ...]]:
    """The pairs by a loop over the log; it has no late rows."""
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
    draw = campaign.rng("kills of the recipe")
    kills = 0
    for _ in range(KILLS):
        process = start(tmp_path, 0.02)
        try:
            process.communicate(timeout=draw.uniform(0.1, 1.2))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
    told, _ = start(tmp_path, 0).communicate(timeout=120)
    assert kills > 0
    assert written(tmp_path) == expected(tmp_path)
    assert told == f"{written(tmp_path).total()} pairs\n"
