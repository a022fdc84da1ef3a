"""Calls without enough memory: they raise an error, and the process continues.

Each kind of call is tried in a separate process, whose address space is limited to its current size
and a little more. Machines and containers that kill processes for lack of memory are not covered.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import campaign
import out_of_memory

SCRIPT = Path(out_of_memory.__file__)

# Calls that need more memory than any test machine has.
TOO_LARGE = {"everything with everything", "more than any machine has", "long texts"}

PLENTY = 1200

# Kinds that only campaigns try, because another kind calls the same operator.
ALIKE = {
    "interval of text",
    "interval in disorder",
    "interval by value",
    "everything with everything",
    "window of rows",
    "aggregate of text",
    "IntervalJoin of text",
    "many pairs by cell",
    "many pairs by low-latency-handshake",
    "many pairs by scalejoin",
    "many pairs by scalejoin-gates",
    "many pairs by three-step",
}

TRIED = [kind for kind in out_of_memory.KINDS if campaign.ALL or kind not in ALIKE]

# Allocators that reserve addresses by the gigabyte would leave nothing to limit.
SETTINGS = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}


Tries = Callable[..., list[dict[str, object]]]


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tries]:
    """Try a kind with these numbers of MiB, in a separate process."""
    errors = tmp_path_factory.mktemp("tries") / "errors.txt"
    with (
        errors.open("w") as said,
        subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env=os.environ | SETTINGS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as server,
    ):
        asked, answers = server.stdin, server.stdout
        assert asked is not None
        assert answers is not None

        def tried(kind: str, *allowances: int) -> list[dict[str, object]]:
            asked.write(json.dumps([kind, *allowances]) + "\n")
            asked.flush()
            found: list[dict[str, object]] = []
            for line in answers:
                found.append(json.loads(line))
                if "ended" in found[-1]:
                    break
            assert errors.read_text() == "", f"{kind}, after {found}"
            assert found, "the server has ended"
            assert found.pop() == {"ended": 0}, f"{kind}, after {found}"
            return found

        yield tried
        asked.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", TRIED)
def test_a_call_without_memory_fails_and_the_process_goes_on(tries, kind):
    rng = campaign.rng(f"memory for {kind}")
    few = [rng.randrange(4, 300) for _ in range(campaign.tries(2))]
    if not campaign.ALL:
        few = [(8, 32)[TRIED.index(kind) % 2]]
    found = tries(kind, *few, PLENTY)
    assert [one["allowance"] for one in found] == [*few, PLENTY]
    rows = {one["result"] for one in found if "result" in one}
    assert len(rows) == (kind not in TOO_LARGE), "all successful calls have the same number of rows"
    for one in found:
        if "error" in one:
            assert one["error"] in {"MemoryLimitError", "MemoryError"}, one
            assert "bug" not in one["text"], one
            # The error is tidegate's, which states the refused bytes, or one of pyarrow or Python.
            assert one["error"] == "MemoryError" or re.search(r"\d+ bytes|a thread", one["text"]), (
                one
            )
        assert one["tight"].get("result", "right") == "right", one
        assert one["tight"].get("error") in {None, "MemoryLimitError", "MemoryError"}, one
        assert one["free"] == {"result": "right"}, one
    assert "result" in found[-1] or kind in TOO_LARGE


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not report free memory")
@pytest.mark.timeout(120)
def test_a_result_beyond_what_the_machine_has_left_is_refused_before_memory_is_taken(tries):
    (found,) = tries("more than any machine has", 4096)
    assert found["error"] == "MemoryLimitError"
    assert re.search(
        r"the result has 1000000000000 more rows: there is no memory for 24000000000000 bytes: "
        r"about \d+ are left",
        found["text"],
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
@pytest.mark.timeout(300)
def test_a_new_thread_without_memory_for_itself_is_an_error_and_not_the_end():
    # The stacks of finished threads are reused, so a thread can start even if no page can be
    # allocated. But C's heap may then have no memory for it, if other threads have taken over the
    # heaps of finished ones. Each try is made by a child with a small address space.
    program = """
import ctypes, json, os, resource, sys, threading
import pyarrow as pa, tidegate as tg
from out_of_memory import SMALL, outcome, size, small_join

libc, hard = ctypes.CDLL(None), resource.getrlimit(resource.RLIMIT_AS)[1]
small_join()  # creates the reserve
attributes = ctypes.create_string_buffer(256)
assert libc.pthread_attr_init(attributes) == 0
assert libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(2 << 20)) == 0
threads, sleep = [ctypes.c_ulong() for _ in range(8)], ctypes.cast(libc.usleep, ctypes.c_void_p)
for thread in threads:
    for_a_while = ctypes.c_void_p(100_000)
    assert libc.pthread_create(ctypes.byref(thread), attributes, sleep, for_a_while) == 0
for thread in threads:
    assert libc.pthread_join(thread, None) == 0

def operator():
    join = tg.IntervalJoin(SMALL, SMALL, on="ts", by="k", lower=-2, upper=2, threads=3)
    for source in join.sources:
        source.push(SMALL)
        source.close()
    return sum(batch.num_rows for batch in join)

def streamed():
    batches = pa.RecordBatchReader.from_batches(SMALL.schema, (one for one in SMALL.to_batches()))
    return tg.interval_join(batches, SMALL, on="ts", by="k", lower=-2, upper=2).num_rows

def child(call, allowance):
    source, sink = os.pipe()
    process = os.fork()
    if process == 0:
        for _ in range(3):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        resource.setrlimit(resource.RLIMIT_AS, (size() + 1024 * allowance, hard))
        tried = outcome(call)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        os.write(sink, json.dumps(tried | {"free": call()}).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as answer:
        text = answer.read()
    return os.waitpid(process, 0)[1], text

for allowance in map(int, sys.argv[1:]):
    for call in operator, small_join, streamed:
        status, text = child(call, allowance)
        print(json.dumps([allowance, call.__name__, status, text]), flush=True)
"""
    rng = campaign.rng("memory for threads")
    # At first, only a few pages are missing; then the stacks and parts of the reserve.
    tries = campaign.tries(20 if campaign.ALL else 10)
    step = 4 if campaign.ALL else 8
    few = [*range(0, 112, step), *(rng.randrange(112, 12_000) for _ in range(tries))]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *map(str, few)]
    done = subprocess.run(
        command,
        cwd=SCRIPT.parent,
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 3 * len(few)
    wanted = {"operator": 5, "small_join": "right", "streamed": 5}
    for allowance, call, status, text in found:
        assert status == 0, (allowance, call, text)
        tried = json.loads(text)
        assert tried["free"] == wanted[call]
        if "error" in tried:
            assert tried["error"] in {"MemoryLimitError", "MemoryError"}, tried
        else:
            assert tried["result"] == wanted[call], tried


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
@pytest.mark.timeout(120)
def test_threads_that_the_system_refuses_are_done_without():
    # The limit applies to all threads of a user. The superuser has no limit, so the script becomes
    # a user without other threads.
    program = """
import os, resource, time
import pyarrow as pa, tidegate as tg
from out_of_memory import NEAR, tables
sides = tables()
join = lambda: tg.interval_join(*sides, by="k", threads=3, **NEAR)
wanted = join()
alone = os.getuid() == 0
if alone:
    os.setuid(54321)
time.sleep(0.5)  # until the threads of the join are gone
mine, hard = len(os.listdir("/proc/self/task")), resource.getrlimit(resource.RLIMIT_NPROC)[1]
for more in range(4):
    resource.setrlimit(resource.RLIMIT_NPROC, (mine + more, hard))
    try:
        assert join().equals(wanted)
        print("joined")
    except tg.MemoryLimitError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_NPROC, (mine, hard))
try:
    tg.IntervalJoin(*sides, by="k", **NEAR)
except tg.MemoryLimitError as error:
    print(error)
"""
    # Allocators would otherwise start threads.
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=SCRIPT.parent,
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, *others, last = done.stdout.splitlines()
    assert first.startswith("the system refused to create a thread (")
    assert last == first
    if os.getuid() == 0:
        assert others == ["joined"] * 3
