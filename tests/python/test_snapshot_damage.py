"""Damaged snapshots with a valid checksum: refused, or restored into a working operator.

Each damaged snapshot is restored in a separate process, which may use at most a gigabyte more. The
process must neither end nor run out of memory.
"""

import json
import os
import random
import resource
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import campaign
from states import KINDS, Kind, table
from tidegate import IntervalJoin, StateError, TidegateError

DAMAGES = campaign.tries(100 if campaign.ALL else 24)
FAMILIES = ("merge", "interval", "window-", "band", "windows", "sessions")
GIGABYTE = 1 << 30
EXTREMES = (0, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def sealed(content: bytes) -> bytes:
    """Return the snapshot of these bytes, with its checksum."""
    return content + zlib.crc32(content).to_bytes(4, "little")


def start_of_state(content: bytes) -> int:
    """Return the position where the query ends."""
    begin = len(b"TIDEGATE") + 2
    return begin + 8 + int.from_bytes(content[begin : begin + 8], "little")


def damaged(snapshots: list[bytes], rng: random.Random) -> bytes:
    """Return one of the snapshots, with some damage and a valid checksum."""
    content = bytearray(rng.choice(snapshots)[:-4])
    first = start_of_state(content)
    lengths = [
        at
        for at in range(first, len(content) - 8)
        if 0 < int.from_bytes(content[at : at + 8], "little") < 1 << 20
    ]
    what = rng.randrange(7)
    at = rng.choice(lengths) if rng.random() < 0.6 else rng.randrange(first, len(content) - 8)
    width = rng.choice((4, 8))
    if what == 0:
        content[at : at + width] = (rng.choice(EXTREMES) % 256**width).to_bytes(width, "little")
    elif what == 1:
        near = int.from_bytes(content[at : at + width], "little") + rng.choice((-8, -1, 1, 8, 64))
        content[at : at + width] = (near % 256**width).to_bytes(width, "little")
    elif what == 2:
        del content[rng.randrange(first, len(content)) :]
    elif what == 3:
        for _ in range(rng.randrange(1, 5)):
            content[rng.randrange(first, len(content))] ^= 1 << rng.randrange(8)
    elif what == 4:
        other = rng.choice(snapshots)[:-4]
        cut = rng.randrange(first, min(len(content), len(other)))
        content[cut:] = other[cut:]
    elif what == 5:
        other = rng.choice(snapshots)[:-4]
        size = rng.choice((8, 16, 64, 200))
        start = rng.randrange(first, len(other))
        content[at : at + size] = other[start : start + size]
    else:
        content[at : at + rng.choice((0, 8, 16))] = bytes(rng.choice((0, 8, 16)))
    return sealed(bytes(content))


def snapshots_of(kind: Kind) -> list[bytes]:
    """Return snapshots of a new operator, of a used one, and of one at its end."""
    used = kind.used()
    at_end = kind.used()
    kind.go_on(at_end)
    return [kind.make().snapshot(), used.snapshot(), used.snapshot(), at_end.snapshot()]


def outcome(kind: Kind, snapshot: bytes) -> str:
    """Return what happens when an operator resumes from a damaged snapshot."""
    operator = kind.make()
    try:
        operator.restore(snapshot)
    except StateError:
        # The operator is unchanged.
        for source in operator.sources:
            source.close()
        return "refused" if operator.poll() is None else "changed"
    except TidegateError as error:
        return f"unexpected {error}"
    try:
        operator.poll()
        operator.stats()
        operator.snapshot()
        for batch in kind.rest(operator):
            batch.validate()
    except TidegateError as error:
        return f"bug {error}" if "bug" in str(error) else "failed"
    return "accepted"


def tell(what: list[object]) -> None:
    """Write a line for the parent process."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def watch(names: list[str]) -> None:
    """Damage snapshots and report the outcomes, one per line; runs in a separate process."""
    snapshots = {name: snapshots_of(KINDS[name]) for name in names}
    for name in names:
        outcome(KINDS[name], snapshots[name][1])
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    taken = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + GIGABYTE, taken + GIGABYTE))
    for name in names:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rng = campaign.rng(f"damaged snapshots of {name}")
        for _ in range(DAMAGES):
            tell([name, outcome(KINDS[name], damaged(snapshots[name], rng))])
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tell([name, (after - before) >> 10])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("family", FAMILIES)
def test_damage_that_the_checksum_does_not_show(family):
    names = [name for name in KINDS if name.startswith(family)]
    child = subprocess.run(
        [sys.executable, __file__, *names],
        env=os.environ | {"RUST_BACKTRACE": "0"},
        capture_output=True,
        text=True,
        timeout=290 * max(1, campaign.FACTOR),
        check=False,
    )
    told = [json.loads(line) for line in child.stdout.splitlines()]
    refused = 0
    for name in names:
        outcomes = [what for of, what in told if of == name and isinstance(what, str)]
        counts = Counter(what.split()[0] for what in outcomes)
        megabytes = [what for of, what in told if of == name and isinstance(what, int)]
        sys.stdout.write(f"{name}: {len(outcomes)} tried, {dict(counts)}, {megabytes} MB more\n")
        assert len(outcomes) == DAMAGES, (child.returncode, child.stderr[-3_000:])
        assert set(counts) <= {"refused", "accepted", "failed"}, sorted(set(outcomes))
        refused += counts["refused"]
        assert megabytes[0] < 200
    # All kinds are counted together, because a few tries of one kind may only hit numbers for which
    # any value is valid.
    assert refused > len(names) * DAMAGES // 4
    assert child.returncode == 0, child.stderr[-3_000:]


@pytest.mark.parametrize("depth", [10, 30])
def test_columns_nested_deep_come_back(depth):
    nested = pa.int64()
    value: object = 7
    for at in range(depth):
        nested = pa.list_(nested) if at % 2 else pa.struct([("a", nested)])
        value = [value] if at % 2 else {"a": value}
    rows = pa.table({"ts": [1, 2], "deep": pa.array([value, None], nested)})
    columns = ["ts", "deep"]
    arguments = {"on": "ts", "lower": 0, "upper": 5, "how": "left", "columns": columns}
    join = IntervalJoin(rows.schema, rows.schema, **arguments)
    join.left_sources[0].push(rows)
    snapshot = join.snapshot()
    again = IntervalJoin(rows.schema, rows.schema, **arguments)
    again.restore(snapshot)
    assert again.snapshot() == snapshot
    for source in again.sources:
        source.close()
    assert pa.Table.from_batches(list(again)).to_pylist() == rows.select(columns).to_pylist()


def test_a_join_that_refused_a_snapshot_goes_on_as_if_it_had_seen_none():
    kind = KINDS["interval-full"]
    wanted = kind.go_on(kind.used())
    content = kind.used().snapshot()[:-4]
    operator = kind.make()
    for cut in range(start_of_state(content), len(content), 97):
        with pytest.raises(StateError, match="the snapshot is damaged"):
            operator.restore(sealed(content[:cut]))
    first = []
    for number, pushes in enumerate(kind.before):
        for times in pushes:
            operator.sources[number].push(table(kind.schemas[number], times))
    batch = operator.poll()
    first += [] if batch is None else batch.to_pylist()
    assert repr(kind.go_on(operator)) == repr(wanted)


if __name__ == "__main__":
    watch(sys.argv[1:])
