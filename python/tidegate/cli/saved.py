"""The state of a command on growing files: one file that binds inputs, operator and output.

A state counts a prefix of each input, what the operator holds after these rows, and the output
that it has given for them. A run that goes on has the operator restored, the inputs read from there
on, and the output cut to what is counted. As results are a function of the rows alone, and not of
when they are read, the output of any number of runs is that of one.

A checkpoint makes these steps, in this order, while nobody pushes rows:

1. All final results are written to the output, and the operator's snapshot and the inputs' places
   are taken.
2. The output is synced (`Live.prepare`).
3. The state is written under another name and synced, takes the place of the one before, and the
   folder is synced.
4. What of the output has no name yet gets it (`Live.publish`).

Killed before step 3 renames the state, or without power, a run leaves the state before, and an
output that has at least what that state counts, since step 2 came before step 3 at that time, too:
the rest is cut off, and the rows are read again. Killed after it, a run leaves the new state, and
an output that has what it counts; a part that step 4 had not named is named then. A rename happens
or does not, so there is no other case. Where step 2 or 3 fails, as on a full disk, the run ends
with an error and leaves one of the same two. A new output is created before its first state; killed
in between, a run leaves an output without rows, with which a new run may begin.

A file begins with a line that has its version and the digest of all that follows; a line of JSON
and the operator's snapshot follow.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate import StateError
from tidegate.cli.tables import Input
from tidegate.files import Format, naming, replaced_whole
from tidegate.followers import Place
from tidegate.growing import ANEW, Mark

MAGIC = b"tidegate-state"
VERSION = b"1"


@dataclass(frozen=True)
class Saved:
    """An operator's snapshot, how far each file had been read, and what of the output counts."""

    what: str
    inputs: tuple[Input, ...]
    places: tuple[Place, ...]
    layout: Format
    columns: pa.Schema
    output: dict[str, Any]
    snapshot: bytes

    @classmethod
    def load(cls, state: str) -> "Saved | None":
        """Read a state; there is none before the first run.

        Raises:
            StateError: The file is damaged, none of this version, or something else.
        """
        path = Path(state)
        if not path.exists():
            return None
        with naming(state, "cannot be read as a state"):
            content = path.read_bytes()
        first, _, rest = content.partition(b"\n")
        magic, version, digest = [*first.split(b" "), b"", b""][:3]
        if magic != MAGIC:
            message = f"{state}: is no state of tidegate; give its own file to --state"
            raise StateError(message)
        if version != VERSION:
            message = (
                f"{state}: is a state of version {version.decode(errors='replace')!r}, and this "
                f"tidegate reads version {VERSION.decode()!r}; go on with the tidegate that wrote "
                f"it, or {ANEW}"
            )
            raise StateError(message)
        if digest.decode(errors="replace") != _digest(rest):
            message = f"{state}: is damaged: its digest is not that of its bytes; {ANEW}"
            raise StateError(message)
        about, _, snapshot = rest.partition(b"\n")
        try:
            known = json.loads(about)
            return cls(
                str(known["what"]),
                tuple(_input(given) for given in known["inputs"]),
                tuple(_place(given) for given in known["places"]),
                Format(known["layout"]),
                _schema(known["columns"]),
                dict(known["output"]),
                snapshot,
            )
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            message = f"{state}: is no state as this version writes them ({error}); {ANEW}"
            raise StateError(message) from error

    def check_inputs(self, state: str, what: str, inputs: Sequence[Input]) -> None:
        """Look whether this is a state of these inputs.

        Raises:
            StateError: It is of others, or of other work.
        """
        if self.what != what or self.inputs != tuple(inputs):
            names = " and ".join(_named(one) for one in self.inputs)
            message = f"{state}: is of {_a(self.what)} of {names}; give these, or {ANEW}"
            raise StateError(message)

    def check_columns(self, state: str, layout: Format, columns: pa.Schema) -> None:
        """Look whether this is a state of such an output.

        Raises:
            StateError: It is of another.
        """
        if (self.layout, self.columns) != (layout, columns):
            message = (
                f"{state}: is of an output as {self.layout} with {_columns(self.columns)}; found "
                f"{layout} with {_columns(columns)}; give the same options as before, or {ANEW}"
            )
            raise StateError(message)

    def save(self, state: str) -> None:
        """Write the state in the place of the one before it."""
        about = {
            "what": self.what,
            "inputs": [asdict(one) for one in self.inputs],
            "places": [_text(place) for place in self.places],
            "layout": self.layout,
            "columns": _hex(self.columns),
            "output": self.output,
        }
        rest = json.dumps(about).encode() + b"\n" + self.snapshot
        first = b" ".join([MAGIC, VERSION, _digest(rest).encode()])
        path = Path(state)
        # One name, which only the run that holds the state's lock uses: a kill leaves one at most.
        with (
            naming(state, "cannot be written"),
            replaced_whole(path, temporary_name(path)) as file,
        ):
            file.write(first + b"\n" + rest)


def temporary_name(path: Path) -> str:
    """Tell the name that a state has until it is whole."""
    return f".{path.resolve().name}.tmp"


def remove(state: str) -> None:
    """Forget a state, if there is one; should it come back, its run has nothing left to do."""
    with naming(state, "cannot be removed"):
        Path(state).unlink(missing_ok=True)


def _named(given: Input) -> str:
    texts = ", ".join(map(repr, given.csv_nulls))
    return given.name if given.csv_nulls == ("",) else f"{given.name} (--csv-null {texts})"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hex(schema: pa.Schema) -> str:
    found: bytes = schema.serialize().to_pybytes()
    return found.hex()


def _schema(given: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(given)))


def _input(given: dict[str, Any]) -> Input:
    return Input(given["name"], Format(given["layout"]), tuple(given["csv_nulls"]))


def _text(place: Place) -> dict[str, Any]:
    return {"mark": asdict(place.mark), "schema": _hex(place.schema), "lines": place.lines}


def _place(given: dict[str, Any]) -> Place:
    return Place(Mark(**given["mark"]), _schema(given["schema"]), given["lines"])
