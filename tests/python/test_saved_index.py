"""Indexes in files: they return the rows of the table, and damaged files are recognized."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest

import campaign
import tidegate as tg
from test_index import KEYS, TIMES, calls, table

SEEDS = range(campaign.tries(15))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_saved_index_returns_the_rows_of_its_table(seed, tmp_path):
    chance = campaign.rng(f"saved index {seed}")
    kind = chance.choice(TIMES)
    by = chance.choice([None, *KEYS, ["int", "text"], ["code", "small"]])
    rows = table(chance, kind, chance.choice([0, 1, 50, 400]), "r")
    index = tg.Index(rows, on="ts", by=by)
    if chance.random() < 0.5:
        # The index has several parts, which a file does not.
        more = table(chance, kind, chance.choice([1, 9]), "r")
        index.append(more)
        rows = pa.concat_tables([rows, more])
    index.save(tmp_path / "rows.index")
    opened = tg.open_index(tmp_path / "rows.index", verify=chance.random() < 0.5)
    assert (opened.on, opened.by, opened.rows) == (index.on, index.by, rows.num_rows)
    assert opened.schema.equals(rows.schema)
    if chance.random() < 0.3:
        # An opened index can grow, and then be saved under the same name.
        more = table(chance, kind, 5, "r")
        opened.append(more)
        rows = pa.concat_tables([rows, more])
        opened.save(tmp_path / "rows.index")
    for number in (1, 3, 200):
        left = table(chance, kind, number, "l")
        for function, arguments in calls(chance, kind):
            given = {"on": "ts", "by": by, "threads": chance.choice([1, 2]), **arguments}
            wanted, found = (function(left, one, **given) for one in (rows, opened))
            if function is tg.interval_join_batches:
                wanted, found = (pa.table(reader) for reader in (wanted, found))
            assert found.schema.equals(wanted.schema)
            assert tg.digest(found) == tg.digest(wanted)


TRADES = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"]})
QUOTES = pa.table(
    {
        "ts": [8, 19, 29, 31],
        "sym": ["A", "A", "A", "B"],
        "bid": [8.0, 9, 7, 6],
        "venue": pa.array(["x", "yy", None, "x"]).dictionary_encode(),
    }
)


def saved(path) -> bytes:
    tg.Index(QUOTES, on="ts", by="sym").save(path)
    return path.read_bytes()


def test_every_damaged_byte_is_found_or_harmless(tmp_path):
    whole = saved(tmp_path / "quotes.index")
    damaged = tmp_path / "damaged.index"
    harmless = 0
    step = campaign.tries(4)
    for at in range(campaign.rng("damage").randrange(4), len(whole), max(1, 16 // step)):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        with pytest.raises(tg.StateError):
            tg.open_index(damaged, verify=True)
        try:
            found = tg.asof_join(TRADES, tg.open_index(damaged), on="ts", by="sym")
        except tg.StateError:
            continue
        # A value has changed at most. Text and codes are still valid.
        found.validate(full=True)
        harmless += 1
    assert 0 < harmless < len(whole) // 2


def test_files_that_are_cut_short_or_foreign_are_refused(tmp_path):
    whole = saved(tmp_path / "quotes.index")
    short = tmp_path / "short.index"
    for length in range(len(whole)):
        short.write_bytes(whole[:length])
        with pytest.raises(tg.StateError):
            tg.open_index(short)
    with pytest.raises(tg.StateError, match=r"expected an index that was written by Index\.save"):
        tg.open_index(__file__)
    with pytest.raises(tg.StateError, match="No such file"):
        tg.open_index(tmp_path / "missing.index")
    later = whole.replace(b'"version":1', b'"version":2')
    assert later != whole
    short.write_bytes(later)
    with pytest.raises(tg.StateError, match="checksum of its trailer"):
        tg.open_index(short)


def test_an_open_index_stays_the_same_when_its_file_is_replaced(tmp_path):
    path = tmp_path / "quotes.index"
    saved(path)
    opened = tg.open_index(path)
    tg.Index(QUOTES.slice(0, 1), on="ts", by="sym").save(path)
    assert (opened.rows, tg.open_index(path).rows) == (4, 1)
    found = tg.asof_join(TRADES, opened, on="ts", by="sym")
    assert found.equals(tg.asof_join(TRADES, QUOTES, on="ts", by="sym"))


def joined(index) -> pa.Table:
    return tg.asof_join(TRADES, index, on="ts", by="sym")


def test_processes_open_the_file_of_a_pickled_index(tmp_path):
    saved(tmp_path / "quotes.index")
    opened = tg.open_index(tmp_path / "quotes.index")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for found in pool.map(joined, [opened, opened]):
            assert found.equals(joined(QUOTES))
    opened.append(QUOTES)
    for index in (opened, tg.Index(QUOTES, on="ts", by="sym")):
        with pytest.raises(TypeError, match="cannot be pickled; save it"):
            pickle.dumps(index)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_process_killed_while_saving_leaves_the_previous_file(tmp_path):
    path = tmp_path / "quotes.index"
    saved(path)
    program = """
import sys, pyarrow as pa, tidegate as tg
rows = range(200_000)
index = tg.Index(pa.table({"ts": rows, "sym": [str(row % 9) for row in rows]}), on="ts", by="sym")
print("saving", flush=True)
while True:
    index.save(sys.argv[1])
"""
    seen = set()
    for wait in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        seen.add(tg.open_index(path, verify=True).rows)
    assert seen <= {4, 200_000}
