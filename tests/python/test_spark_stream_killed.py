"""Streaming queries whose driver, executors and workers are killed, again and again.

After the kills, the session of the tests goes on with the query. `CAMPAIGN=20` in the environment
makes 20 kills of each of the 10 queries, 200 in all, which takes hours.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import campaign
import streaming
import streaming_query
from spark_session import start

KILLS = campaign.tries(1)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills a group of processes"),
    pytest.mark.filterwarnings("ignore"),
    # A kill costs the start of Spark and of its workers: more than a minute on a busy machine.
    pytest.mark.timeout(960),
]


@pytest.mark.parametrize("name", streaming_query.tried("interval_join"))
def test_nothing_is_lost_and_nothing_doubled(tmp_path, name):
    # A batch for each kill, some that end before their kill, and some that are left alone.
    streaming.write(tmp_path, KILLS + KILLS // 2 + 2, seed=KILLS)
    draw = random.Random(KILLS)  # noqa: S311 - for tests
    commits = tmp_path / "checkpoint" / "commits"
    command = [sys.executable, streaming_query.__file__, str(tmp_path), name]
    killed = 0
    for _ in range(2 * KILLS):
        if killed == KILLS:
            break
        begun = len([*commits.glob("[0-9]*")])
        with subprocess.Popen(
            command, start_new_session=True, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None and len([*commits.glob("[0-9]*")]) == begun:
                time.sleep(0.01)
            time.sleep(draw.random())
            if process.poll() is None:
                killed += 1
                os.killpg(process.pid, signal.SIGKILL)
    assert killed == KILLS
    spark = start()
    streaming_query.run(spark, tmp_path, name)
    # The sink's own log tells which files count.
    found = spark.read.parquet(str(tmp_path / "found")).toArrow()
    streaming_query.check(name, tmp_path, found, restarted=True)
