"""`--state`: all damage to a state is detected, even with a recomputed digest."""

import hashlib
import json
from pathlib import Path

import pytest

import campaign
from command_line import run
from following_run import Growing, command, grown, rows_of, stopped, wanted
from tidegate import StateError
from tidegate.cli.saved import Saved

TRIES = campaign.tries(300)
EXTREMES = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**64,
    1e300,
    "",
    "x",
    "ff",
    "\0",
    [],
    {},
    [[]],
    {"": 0},
]


@pytest.fixture(params=[("join", "out.csv"), ("aggregate", "out/")], ids=["join", "aggregate"])
def interrupted(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Create a stopped run with its state and output."""
    monkeypatch.chdir(tmp_path)
    growing = Growing(tmp_path)
    query, out = request.param
    growing.grow(40)
    result = stopped(command(query, out, "--quiet"), grown(tmp_path, growing))
    assert result.exit_code == 0, result.output
    growing.end()
    return query, out


def sealed(rest: bytes) -> bytes:
    """Return a state of these bytes with their digest."""
    digest = hashlib.sha256(rest).hexdigest().encode()
    return b"tidegate-state 1 " + digest + b"\n" + rest


def damaged(draw, rest: bytes) -> bytes:
    """Return bytes of a state with some of them changed, missing, doubled or added."""
    changed = bytearray(rest)
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.randrange(len(changed) + 1)
        length = draw.choice([0, 1, 1, 4, 8, 100])
        new = draw.choice(
            [b"", draw.randbytes(length), b"\xff" * length, bytes(length), b"9" * length]
        )
        changed[at : at + draw.choice([0, length])] = new
    return bytes(changed)


def replaced(draw, rest: bytes) -> bytes:
    """Return a state in which one value of the header is replaced."""
    about, _, snapshot = rest.partition(b"\n")
    known = json.loads(about)
    places: list[tuple[dict | list, object]] = []

    def walk(value):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(known)
    where, key = draw.choice(places)
    where[key] = draw.choice(EXTREMES)
    return json.dumps(known).encode() + b"\n" + snapshot


def test_any_damage_is_found_or_harmless(interrupted):
    query, _ = interrupted
    draw = campaign.rng(f"damaged states of {query}")
    state = Path("state")
    _, _, rest = state.read_bytes().partition(b"\n")
    assert sealed(rest) == state.read_bytes()
    refused = 0
    for _ in range(TRIES):
        state.write_bytes(sealed(draw.choice([damaged, replaced])(draw, rest)))
        try:
            Saved.load("state")
        except StateError as error:
            refused += str(error).startswith("state: ")
    assert refused > TRIES // 4


def test_a_run_says_what_is_wrong_with_a_damaged_state(interrupted):
    query, out = interrupted
    draw = campaign.rng(f"runs from damaged states of {query}")
    state = Path("state")
    sound = state.read_bytes()
    output = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    _, _, rest = sound.partition(b"\n")
    for _ in range(campaign.tries(12)):
        new = draw.choice([damaged, replaced])(draw, rest)
        for path, content in output.items():
            path.write_bytes(content)
        state.write_bytes(sealed(new))
        result = run(*command(query, out, "--quiet"))
        # The damage may produce another valid snapshot.
        assert result.exit_code in {0, 1, 2}, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), new
        assert "Traceback" not in result.output, new
        assert "bug" not in result.output, new
    for path, content in output.items():
        path.write_bytes(content)
    result = run(*command(query, out, "--quiet"))
    assert result.exit_code == 0, result.output
    assert rows_of(Path(), out) == wanted(Path(), query, out)
