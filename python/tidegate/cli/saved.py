"""The saved state of a command on growing files: its inputs, operator and output in one file.

A state records the position in each input, the rows that the operator holds at that point, and the
output written so far. A resumed run restores the operator, reads each input from the recorded
position, and truncates the output to the recorded bytes or parts. Results depend only on the rows,
not on when the rows are read. Therefore, several runs together write the same output as a single
run.

A checkpoint has four steps:

1. While no rows are being pushed, all final results are written to the output. Then a snapshot of
   the operator is taken, together with the positions in the inputs.
2. The output is synced (`Live.prepare`).
3. The state is written under a temporary name and synced. The file is then renamed, which replaces
   the previous state, and the folder is synced.
4. A new part of the output is given its final name (`Live.publish`).

A kill or a power failure leaves one of two cases, depending on whether the rename happened:

- Before the rename in step 3, the previous state is still in place. The output was synced before
  that state was renamed, so the output contains everything that the state records. The next run
  truncates the output to the recorded position and reads the subsequent rows again.
- After the rename, the new state is in place, and step 2 has synced the output that it records. If
  step 4 was not completed, the next run repeats it.

If a step fails, for example because the disk is full, the run ends with an error in one of these
two cases. A new output is created before its first state. If the run is killed in between, the
output exists but contains no rows, and a new run accepts it. When all inputs have ended, the end
mark is added to the output, the output is synced, and then the state is removed. If the run is
killed before the removal, the next run only has to repeat these steps.

The file begins with a line that contains its version and the digest of all other bytes. The second
line is JSON. This line is followed by the operator's snapshot.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_type_hints

import pyarrow as pa

from tidegate import StateError
from tidegate.cli.tables import Input
from tidegate.io.dialects import Dialect
from tidegate.io.files import Format, naming, replaced_whole
from tidegate.io.followers import Place
from tidegate.io.growing import ANEW, Mark
from tidegate.io.live import Parts

MAGIC = b"tidegate-state"
VERSION = b"1"

T = TypeVar("T", Mark, Parts)


@dataclass(frozen=True)
class Saved:
    """An operator's snapshot, with the positions in the inputs and in the output."""

    what: str
    inputs: tuple[Input, ...]
    places: tuple[Place, ...]
    layout: Format
    columns: pa.Schema
    output: Mark | Parts
    snapshot: bytes
    flushed: bool = False
    """Whether the clock has advanced the time of an input, with --flush-after."""

    _KINDS: ClassVar = {
        "what": str,
        "inputs": list,
        "places": list,
        "layout": str,
        "columns": str,
        "output": dict,
    }

    @classmethod
    def load(cls, state: str) -> "Saved | None":
        """Read a state; return None if there is none, as before the first run.

        Raises:
            StateError: The file is damaged, has a different version, or is not a state.
        """
        path = Path(state)
        if not path.exists():
            return None
        with naming(state, "cannot be read as a state"):
            content = path.read_bytes()
        first, _, rest = content.partition(b"\n")
        magic, version, digest = [*first.split(b" "), b"", b""][:3]
        if magic != MAGIC:
            message = f"{state}: is not a state of tidegate; choose another file for --state"
            raise StateError(message)
        if version != VERSION:
            message = (
                f"{state}: is a state of version {version.decode(errors='replace')!r}, "
                f"but this version of tidegate reads version {VERSION.decode()!r}; "
                f"resume with the version of tidegate that wrote it, or {ANEW}"
            )
            raise StateError(message)
        if digest.decode(errors="replace") != _digest(rest):
            message = f"{state}: is damaged, because its digest does not match its content; {ANEW}"
            raise StateError(message)
        about, _, snapshot = rest.partition(b"\n")
        try:
            found = json.loads(about)
            flushed = isinstance(found, dict) and found.pop("flushed", False) is True
            known = _fields(found, cls._KINDS)
            layout = Format(known["layout"])
            return cls(
                known["what"],
                tuple(map(_input, known["inputs"])),
                tuple(map(_place, known["places"])),
                layout,
                _schema(known["columns"]),
                _output(layout, known["output"]),
                snapshot,
                flushed,
            )
        # Arrow raises an `OSError` for a damaged schema.
        except (ValueError, OSError, RecursionError, pa.ArrowException) as error:
            message = f"{state}: is not a state that this version can read ({error}); {ANEW}"
            raise StateError(message) from error

    def check_inputs(self, state: str, what: str, inputs: Sequence[Input]) -> None:
        """Check that this state belongs to the given inputs.

        Raises:
            StateError: The state belongs to different inputs or to a different command.
        """
        if self.what != what or [*map(_untyped, self.inputs)] != [*map(_untyped, inputs)]:
            names = " and ".join(_named(one) for one in self.inputs)
            message = f"{state}: belongs to {_a(self.what)} of {names}; give these files, or {ANEW}"
            raise StateError(message)

    def is_mended(self, inputs: Sequence[Input]) -> bool:
        """Return whether the types of CSV columns differ from those in this state."""
        return self.inputs != tuple(inputs)

    def check_mended(self, state: str) -> None:
        """Check that the inputs can be read again from the beginning, with different types.

        Raises:
            StateError: The name of a file that was read now belongs to another file.
        """
        if self.flushed:
            message = f"{state}: was written with --flush-after, so its rows cannot be read again "
            message += f"with other --types; give the same types as before, or {ANEW}"
            raise StateError(message)
        for given, place in zip(self.inputs, self.places, strict=True):
            if place.files > 1:
                message = f"{state}: includes rows of {place.files - 1:,} earlier files with the "
                message += f"name {given.name}, which cannot be read again with other --types; "
                message += f"give the same types as before, or {ANEW}"
                raise StateError(message)

    def check_columns(
        self, state: str, layout: Format, columns: pa.Schema, *, mended: bool = False
    ) -> None:
        """Check that this state belongs to an output with the given format and columns.

        CSV does not store types. If the types of the inputs have been corrected, only the column
        names of a CSV output matter.

        Raises:
            StateError: The state belongs to a different output.
        """
        is_text = mended and layout.is_csv and self.columns.names == columns.names
        if self.layout != layout or not (is_text or self.columns == columns):
            message = (
                f"{state}: belongs to {_a(self.layout)} output with {_columns(self.columns)}; "
                f"found {layout} with {_columns(columns)}; "
                f"give the same options as before, or {ANEW}"
            )
            raise StateError(message)

    def save(self, state: str) -> None:
        """Write the state, replacing the previous one."""
        about: dict[str, Any] = {
            "what": self.what,
            "inputs": [_told(one) for one in self.inputs],
            "places": [_text(place) for place in self.places],
            "layout": self.layout,
            "columns": _hex(self.columns),
            "output": asdict(self.output),
        }
        if self.flushed:
            about["flushed"] = True
        rest = json.dumps(about).encode() + b"\n" + self.snapshot
        first = b" ".join([MAGIC, VERSION, _digest(rest).encode()])
        path = Path(state)
        # Only the run that holds the lock uses this name, so killed runs leave at most one such
        # file.
        with (
            naming(state, "cannot be written"),
            replaced_whole(path, temporary_name(path)) as file,
        ):
            file.write(first + b"\n" + rest)


def temporary_name(path: Path) -> str:
    """Return the name of the temporary file to which a state is written."""
    return f".{path.resolve().name}.tmp"


def remove(state: str) -> None:
    """Remove a state if it exists. If the file reappears, the next run has nothing left to do."""
    with naming(state, "cannot be removed"):
        Path(state).unlink(missing_ok=True)


def _named(given: Input) -> str:
    options = [
        f"--{FLAGS.get(name, name).replace('_', '-')} {_written(value)}"
        for name, value in given.csv.differences().items()
        if name != "times"
    ]
    return f"{given.name} ({' '.join(options)})" if options else given.name


FLAGS = {"nulls": "null", "time_formats": "time-format"}


def _written(value: object) -> str:
    """Return an option's value; for types, pairs such as `user=string`."""
    if not isinstance(value, tuple):
        return repr(value)
    return ",".join("=".join(one) if isinstance(one, tuple) else repr(one) for one in value)


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


def _fields(given: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Check that a JSON object has exactly the given fields and types, and no negative integers.

    Raises:
        ValueError: The object has different fields, or values that are not allowed.
    """
    if not isinstance(given, dict) or given.keys() != kinds.keys():
        message = f"expected the fields {', '.join(kinds)}"
        raise ValueError(message)
    for name, kind in kinds.items():
        value: object = given[name]
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            message = f"{name} is {value!r:.80}"
            raise ValueError(message)
    return given


def _made(kind: type[T], given: object) -> T:
    """Create a data class with string and integer fields from a JSON object."""
    return kind(**_fields(given, get_type_hints(kind)))


def _output(layout: Format, given: object) -> Mark | Parts:
    return _made(Parts, given) if layout is Format.PARQUET else _made(Mark, given)


def _told(given: Input) -> dict[str, Any]:
    """Return an input as JSON.

    Options that older state files lack are omitted if they are unused.
    """
    told: dict[str, Any] = {"name": given.name, "layout": given.layout}
    told["csv_nulls"] = given.csv.nulls
    if given.csv.types:
        told["csv_types"] = given.csv.types
    others = given.csv.differences()
    if others := {name: value for name, value in others.items() if name not in {"nulls", "types"}}:
        told["csv"] = others
    return told


def _input(given: object) -> Input:
    known = dict(given) if isinstance(given, dict) else {}
    types, others = known.pop("csv_types", []), known.pop("csv", {})
    known = _fields(known, {"name": str, "layout": str, "csv_nulls": list})
    for text in known["csv_nulls"]:
        _fields({"csv_nulls": text}, {"csv_nulls": str})
    if not isinstance(types, list) or not all(map(_is_pair, types)):
        message = f"csv_types is {types!r:.80}"
        raise ValueError(message)
    pairs = tuple((name, kind) for name, kind in types)
    csv = Dialect(nulls=tuple(known["csv_nulls"]), types=pairs, of_command=True, **_options(others))
    return Input(known["name"], Format(known["layout"]), csv)


def _options(given: object) -> dict[str, Any]:
    """Return the options of a dialect from JSON."""
    if not isinstance(given, dict) or not given.keys() <= _OPTIONS.keys():
        message = f"csv is {given!r:.80}"
        raise ValueError(message)
    found = {}
    for name, value in given.items():
        kind = _OPTIONS[name]
        _fields({name: value}, {name: kind})
        if kind is list:
            for text in value:
                _fields({name: text}, {name: str})
        found[name] = tuple(value) if kind is list else value
    return found


_OPTIONS = {
    "delimiter": str,
    "header": bool,
    "names": list,
    "quote": str,
    "escape": str,
    "time_formats": list,
    "zone": str,
    "epoch_unit": str,
    "times": list,
    "decimal": str,
    "encoding": str,
}
"""The options of a dialect, with their types in JSON."""


def _is_pair(given: object) -> bool:
    return isinstance(given, list) and [*map(type, given)] == [str, str]


def _untyped(given: Input) -> Input:
    return replace(given, csv=replace(given.csv, types=()))


def _text(place: Place) -> dict[str, Any]:
    told = {"mark": asdict(place.mark), "schema": _hex(place.schema), "lines": place.lines}
    return told | {"files": place.files} if place.files > 1 else told


def _place(given: object) -> Place:
    rest = dict(given) if isinstance(given, dict) else {}
    files = rest.pop("files", 1)
    known = _fields(rest, {"mark": dict, "schema": str, "lines": int})
    _fields({"files": files}, {"files": int})
    return Place(_made(Mark, known["mark"]), _schema(known["schema"]), known["lines"], files)
