"""Calls on few rows, which run on the caller's thread, and methods written in Python."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

import tidegate as tg

# A join in a thread whose stack is far smaller than those of tidegate's threads.
SMALL_STACK = """
import threading
import pyarrow as pa
import tidegate as tg

table = pa.table({"ts": [1, 2], "x": [1, 2]})
where = "left.x" + " + 1" * 198 + " = 1000"
found = []
threading.stack_size(256 * 1024)
thread = threading.Thread(
    target=lambda: found.append(
        tg.interval_join(table, table, on="ts", lower=0, upper=0, where=where).num_rows
    )
)
thread.start()
thread.join()
assert found == [0]
"""


def test_a_condition_does_not_need_the_callers_stack():
    done = subprocess.run([sys.executable, "-c", SMALL_STACK], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", [tg.Operator.run, tg.Operator.running, tg.Source.push_async])
def test_methods_that_are_written_in_python_can_be_pickled(method):
    assert pickle.loads(pickle.dumps(method)) is method


def test_a_method_has_the_name_of_its_class():
    assert tg.Operator.__aiter__.__qualname__ == "Operator.__aiter__"
    assert tg.MergeReader.__aiter__.__qualname__ == "MergeReader.__aiter__"


@pytest.mark.parametrize("drive", [tg.Operator.run, tg.Operator.running])
def test_punctuations_are_asked_for_by_a_boolean(drive):
    merge = tg.Merge(pa.schema([("ts", pa.int64())]))
    with pytest.raises(TypeError, match="punctuations: expected True or False, got 'no'"):
        drive(merge, print, punctuations="no")
