"""Snapshots of the streaming join: a join that resumes from any cut emits the same later rows."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign
import oracle
from streaming_oracle import Source
from test_streaming_join import streams
from tidegate import IntervalJoin, StateError

PATIENCE = 60


def shuffled(
    left_sources: list[Source], right_sources: list[Source], rng: random.Random
) -> list[tuple[int, object]]:
    """The events, in order: the number of a source, and rows, a promise or its end."""
    waiting = []
    for number, source in enumerate([*left_sources, *right_sources]):
        step = oracle.step(source.table.schema.field("ts").type)
        events = [
            event // step if isinstance(event, int) else source.table.slice(event[0], len(event))
            for event in source.history
            if isinstance(event, int) or event
        ]
        waiting.append((number, [*events, None]))
    happens = []
    while waiting:
        turn = rng.choice(waiting)
        happens.append((turn[0], turn[1].pop(0)))
        if not turn[1]:
            waiting.remove(turn)
    return happens


def happen(join: IntervalJoin, number: int, event: object) -> None:
    source = join.sources[number]
    if event is None:
        source.close()
    elif isinstance(event, int):
        source.advance(event)
    else:
        source.push(event)


def rest(join: IntervalJoin) -> list[dict[str, object]]:
    return [row for batch in iter(join.poll, None) for row in batch.to_pylist()]


@settings(max_examples=campaign.tries(60 if campaign.ALL else 40))
@given(
    streams(),
    st.randoms(),
    st.integers(1, 4),
    st.sampled_from(["key", "data", "hybrid", "scale-oij"]),
)
def test_every_cut_of_a_history_goes_on_alike(streams, rng, threads, parallelism):
    left_sources, right_sources, _, arguments = streams
    schemas = left_sources[0].table.schema, right_sources[0].table.schema
    happens = shuffled(left_sources, right_sources, rng)
    polls = [rng.random() < 0.5 for _ in happens]
    others = arguments | {"threads": threads, "parallelism": parallelism}

    whole, other = IntervalJoin(*schemas, **arguments), IntervalJoin(*schemas, **others)
    cut = IntervalJoin(*schemas, **others)
    found: tuple[list[object], list[object]] = ([], [])
    for (number, event), polled in zip(happens, polls, strict=True):
        for join in (whole, other, cut):
            happen(join, number, event)
        if polled:
            rest(other)
            found[0].extend(rest(whole))
            found[1].extend(rest(cut))
        # Equal histories yield equal bytes, for any number of threads.
        assert whole.snapshot() == other.snapshot()
        snapshot = cut.snapshot()
        cut = IntervalJoin(*schemas, **rng.choice([arguments, others]))
        cut.restore(snapshot)
    found[0].extend(rest(whole))
    found[1].extend(rest(cut))
    assert repr(found[0]) == repr(found[1])
    assert repr(whole.late().to_pylist()) == repr(cut.late().to_pylist())
    of_both = [join.stats() for join in (whole, cut)]
    for name in ("rows_in", "rows_used", "rows_late", "rows_out", "watermark", "state_rows"):
        assert of_both[0][name] == of_both[1][name], name


LEFT = pa.table({"ts": [1, 4, 9], "k": ["a", "b", "a"], "l": [1, 2, 3]})
RIGHT = pa.table({"ts": [2, 4, 9], "k": ["a", "b", "a"], "r": [10, 20, 30]})
QUERY = {"on": "ts", "by": "k", "lower": -1, "upper": 1, "how": "full", "lateness": 2}


def new(**arguments: object) -> IntervalJoin:
    return IntervalJoin(LEFT.schema, RIGHT.schema, **(QUERY | arguments))


def used() -> IntervalJoin:
    join = new()
    join.left_sources[0].push(LEFT)
    join.right_sources[0].push(RIGHT)
    join.left_sources[0].push(LEFT[:1])
    join.poll()
    return join


def test_codes_of_dictionaries_do_not_show_at_any_depth():
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    struct = pa.StructArray.from_arrays([words, pa.array([1, 2, 3, 4])], ["w", "n"])
    other = pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 2], pa.int32()), ["x", "b", "a"])
    other_struct = pa.StructArray.from_arrays([other, struct.field("n")], ["w", "n"])
    found = []
    for of in (struct, other_struct):
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 4], pa.int32()), of)
        table = pa.table({"ts": [1, 2, 3], "k": ["a", "b", "a"], "lists": lists})
        join = IntervalJoin(table.schema, RIGHT.schema, **QUERY)
        join.left_sources[0].push(table)
        join.right_sources[0].push(RIGHT[:1])
        found.append(join.snapshot())
        again = IntervalJoin(table.schema, RIGHT.schema, **QUERY)
        again.restore(found[-1])
        assert again.snapshot() == found[-1]
        for source in again.sources:
            source.close()
        rows = {row["ts"]: row["lists"] for batch in again for row in batch.to_pylist()}
        assert list(map(rows.get, [1, 2, 3])) == table["lists"].to_pylist()
    assert found[0] == found[1]


def test_results_without_columns_are_kept():
    join = new(columns=[])
    join.left_sources[0].push(LEFT)
    join.right_sources[0].push(RIGHT)
    for source in join.sources:
        source.close()
    again = new(columns=[])
    again.restore(join.snapshot())
    assert sum(batch.num_rows for batch in again) == sum(batch.num_rows for batch in join) == 3


def test_threads_do_not_show_where_a_row_has_many_pairs():
    rows = pa.table({"ts": [0] * 1200})
    snapshots = set()
    for threads in (1, 2, 3):
        join = IntervalJoin(
            rows.schema, rows.schema, on="ts", lower=0, upper=0, threads=threads, columns=["ts"]
        )
        for source in join.sources:
            source.push(rows)
            source.close()
        snapshots.add(join.snapshot())
    assert len(snapshots) == 1


def test_damage_is_found_wherever_it_is():
    snapshot = used().snapshot()
    rng = random.Random(1)  # noqa: S311 - not for secrets
    # A refused snapshot leaves the join unchanged.
    join = new()
    for place in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(StateError):
            join.restore(bytes(damaged))
    for length in range(len(snapshot)):
        with pytest.raises(StateError):
            join.restore(snapshot[:length])
    with pytest.raises(StateError):
        join.restore(snapshot + b"\0")
    join.restore(snapshot)
    assert join.snapshot() == snapshot


@pytest.mark.parametrize(
    "other",
    [
        {"upper": 2},
        {"how": "left"},
        {"by": None},
        {"closed": "left"},
        {"where": "left.l < right.r"},
        {"suffix": "_r"},
        {"sources": (2, 1)},
        {"lateness": 3},
        {"columns": ["l", "r"]},
    ],
)
def test_a_snapshot_is_of_one_query(other):
    with pytest.raises(StateError):
        new(**other).restore(used().snapshot())


def test_a_snapshot_is_of_two_schemas():
    snapshot = used().snapshot()
    wider = pa.table({**dict(zip(LEFT.column_names, LEFT.columns, strict=True)), "z": [1, 2, 3]})
    with pytest.raises(StateError):
        IntervalJoin(wider.schema, RIGHT.schema, **QUERY).restore(snapshot)


def test_a_snapshot_is_of_all_columns():
    names = [f"c{at}" for at in range(200)]

    def made(last: str) -> IntervalJoin:
        schema = pa.schema([("ts", pa.int64()), *((name, pa.int8()) for name in [*names, last])])
        return IntervalJoin(schema, schema, on="ts", lower=0, upper=1)

    with (
        made("price") as join,
        made("bid") as other,
        pytest.raises(
            StateError, match=r"c199: Int8, price: Int8, but .* c199: Int8, bid: Int8"
        ) as it,
    ):
        other.restore(join.snapshot())
    assert len(str(it.value)) < 800


def test_a_join_that_was_used_restores_nothing():
    snapshot = used().snapshot()
    join = new()
    join.left_sources[0].advance(-100)
    with pytest.raises(StateError, match="an unused join; create a new one"):
        join.restore(snapshot)


@pytest.mark.parametrize("wrong", [None, "text", 5])
def test_what_is_no_bytes_is_refused(wrong):
    with pytest.raises(TypeError):
        new().restore(wrong)


# A process that is killed at any moment

FEED = """
    import os, sys
    from pathlib import Path
    import pyarrow as pa, tidegate

    folder = Path(sys.argv[1])
    output, state = folder / "output", folder / "state"
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])
    join = tidegate.IntervalJoin(schema, schema, on="ts", by="k", lower=-20, upper=5, how="full")
    begin, length = 0, 0
    if state.exists():
        head, _, snapshot = state.read_bytes().partition(b"\\n")
        begin, length = map(int, head.split())
        join.restore(snapshot)
    with output.open("ab") as file:
        file.truncate(length)
        for step in range(begin, 60):
            rows = [[10 * step + n, (7 * n + step) % 5, 100 * step + n] for n in range(10)]
            for side, source in enumerate(join.sources):
                some = [dict(zip(schema.names, row)) for row in rows if row[2] % 3 != side]
                source.push(pa.Table.from_pylist(some, schema))
                if step == 59:
                    source.close()
            for batch in iter(join.poll, None):
                for row in batch.to_pylist():
                    file.write(repr(row).encode() + b"\\n")
            file.flush()
            os.fsync(file.fileno())
            new = state.with_suffix(".new")
            new.write_bytes(f"{step + 1} {file.tell()}\\n".encode() + join.snapshot())
            new.replace(state)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL")
def test_nothing_is_lost_or_doubled_when_a_process_is_killed(tmp_path):
    script = textwrap.dedent(FEED)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    subprocess.run([sys.executable, "-c", script, whole], check=True, timeout=PATIENCE)

    rng = random.Random(5)  # noqa: S311 - not for secrets
    deaths = 0
    for _ in range(50):
        with subprocess.Popen([sys.executable, "-c", script, killed]) as process:
            before = steps(killed)
            # The process may be killed at any moment after some steps.
            while process.poll() is None and steps(killed) < before + 8:
                time.sleep(0.001)
            time.sleep(rng.random() / 50)
            process.send_signal(signal.SIGKILL)
        deaths += process.returncode == -signal.SIGKILL
        if process.returncode == 0:
            break
    assert process.returncode == 0
    assert deaths > 2
    assert (killed / "output").read_bytes() == (whole / "output").read_bytes()
    assert (whole / "output").read_bytes().count(b"\n") > 600


def steps(folder: Path) -> int:
    """Return the number of steps that the process has completed."""
    state = folder / "state"
    return int(state.read_bytes().split(b" ", 1)[0]) if state.exists() else 0
