"""Streaming queries whose drivers, Python workers and executors are repeatedly killed.

After the kills, the session of the tests resumes the query. `CAMPAIGN=20` in the environment kills
a driver 10 times, a worker 6 times and an executor 4 times for each of the 10 queries. These 200
kills take hours. The last lines of pytest contain a table of the kills.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import campaign
import standalone
import streaming
import streaming_query
from cases import of_campaigns
from spark_session import start

# The kills of a query in a campaign of 20.
SHARES = {"driver": 10, "worker": 6, "executor": 4}
KILLS = {victim: max(1, campaign.tries(share) // 20) for victim, share in SHARES.items()}

# The seconds within which a victim must appear. A worker lives as long as its session.
PATIENCE = 240

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
    pytest.mark.filterwarnings("ignore"),
    # After a kill, starting Spark and its workers takes more than a minute on a busy machine.
    pytest.mark.timeout(960),
]


def descendants() -> dict[int, tuple[int, bytes]]:
    """Return this process and its descendants, each with its parent and its command."""
    known = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        known[int(folder.name)] = int(fields[1]), command

    def is_mine(number: int) -> bool:
        return number == os.getpid() or (number in known and is_mine(known[number][0]))

    return {number: found for number, found in known.items() if is_mine(number)}


def workers() -> list[int]:
    """Return the Python workers of the tests' session, in which a daemon forks them."""
    known = descendants()
    return [
        number
        for number, (parent, command) in known.items()
        if b"spark_daemon" in command
        and parent in known
        and b"spark_daemon" in known[parent][1]
        and b"java" in known[known[parent][0]][1]
    ]


def executors() -> list[int]:
    """Return the executors of a cluster that this process has started."""
    known = descendants()
    return [
        number
        for number, (_, command) in known.items()
        if b"CoarseGrainedExecutorBackend" in command
    ]


VICTIMS: dict[str, Callable[[], list[int]]] = {"worker": workers, "executor": executors}

# A cluster takes long to start, and `test_spark_cluster.py` also kills executors.
TRIED = [*VICTIMS] if campaign.ALL else ["worker"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[str]:
    """Return the address of a standalone cluster."""
    with standalone.cluster(tmp_path_factory.mktemp("cluster"), workers=2) as address:
        yield address


def written(folder: Path, batches: int, seed: int) -> random.Random:
    streaming.write(folder, batches, seed=seed)
    return random.Random(f"{campaign.SEED} {folder.name}")  # noqa: S311 - for tests


def command(folder: Path, name: str, *master: str) -> list[str]:
    return [sys.executable, streaming_query.__file__, str(folder), name, *master]


def run_apart(folder: Path, name: str, master: str) -> None:
    """Run the query in a separate process."""
    done = subprocess.run(
        command(folder, name, master),
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE * KILLS["executor"],
        check=False,
    )
    assert done.returncode == 0, "the query failed"


def committed(folder: Path) -> int:
    """Return the number of committed micro-batches."""
    return len([*(folder / "checkpoint" / "commits").glob("[0-9]*")])


def check(folder: Path, name: str) -> None:
    """Resume until the whole input has been read, and compare all rows."""
    spark = start()
    streaming_query.run(spark, folder, name)
    # The sink's log lists the valid files.
    found = spark.read.parquet(str(folder / "found")).toArrow()
    streaming_query.check(name, folder, found, restarted=True)


# Separate drivers take long to start. By default, queries are stopped and resume in the session.
@of_campaigns
@pytest.mark.parametrize("name", streaming_query.tried("interval_join"))
def test_nothing_is_lost_and_nothing_doubled_where_drivers_are_killed(
    tmp_path, record_property, name
):
    kills = KILLS["driver"]
    # There is a batch for each kill, some for runs that end before their kill, and another one.
    draw = written(tmp_path, kills + kills // 2 + 1, seed=kills)
    killed = 0
    for _ in range(2 * kills):
        if killed == kills:
            break
        begun = committed(tmp_path)
        with subprocess.Popen(
            command(tmp_path, name), start_new_session=True, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None and committed(tmp_path) == begun:
                time.sleep(0.01)
            time.sleep(draw.random())
            if process.poll() is None:
                killed += 1
                os.killpg(process.pid, signal.SIGKILL)
    assert killed == kills
    check(tmp_path, name)
    record_property("kills", (name, "driver", killed))


@pytest.mark.parametrize("victim", TRIED)
@pytest.mark.parametrize("name", streaming_query.tried("interval_join"))
def test_nothing_is_lost_and_nothing_doubled_where_a_driver_goes_on(
    tmp_path, request, record_property, name, victim
):
    kills = KILLS[victim]
    draw = written(tmp_path, 2 * kills + 1, seed=kills)
    run: Callable[[], object] = partial(streaming_query.run, start(), tmp_path, name)
    if victim == "executor":
        run = partial(run_apart, tmp_path, name, request.getfixturevalue("cluster"))
    killed = 0
    with ThreadPoolExecutor(1) as threads:
        for _ in range(3):
            if killed == kills:
                break
            query = threads.submit(run)
            end = time.monotonic() + PATIENCE * kills
            while not query.done() and killed < kills:
                assert time.monotonic() < end, f"no {victim} was found"
                begun = committed(tmp_path)
                time.sleep(draw.random())
                victims = VICTIMS[victim]()
                if victims and not query.done():
                    with suppress(ProcessLookupError):
                        os.kill(draw.choice(victims), signal.SIGKILL)
                        killed += 1
                # A task that fails four times fails its query, so there is at most one kill per
                # batch.
                while not query.done() and committed(tmp_path) == begun:
                    time.sleep(0.01)
            query.result(PATIENCE)
    assert killed == kills
    check(tmp_path, name)
    record_property("kills", (name, victim, killed))
