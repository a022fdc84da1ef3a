"""Where work on growing files was stopped, in a file from which the next run goes on."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from tidegate import StateError
from tidegate.files import naming, replaced_whole
from tidegate.growing import Place


@dataclass(frozen=True)
class Saved:
    """An operator's snapshot, and how far files had been read; None for what is not a file."""

    snapshot: bytes
    places: tuple[Place | None, ...]

    @classmethod
    def load(cls, state: str, what: str, files: list[str]) -> "Saved | None":
        """Read a state of a join or an aggregation; there is none before the first stop.

        Raises:
            StateError: The file is damaged, or of something else, or of other files.
        """
        if not Path(state).exists():
            return None
        try:
            with naming(state, "cannot be read as a state"), zipfile.ZipFile(state) as archive:
                snapshot = archive.read(what)
                inputs = json.loads(archive.read("files"))
                names = inputs["names"]
                places = tuple(_place(place) for place in inputs["places"])
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            message = f"{state}: is no state of {_a(what)}, or damaged ({error})"
            raise StateError(message) from error
        if names != files:
            message = (
                f"{state}: is of {_a(what)} of {' and '.join(names)}; give these, or another state"
            )
            raise StateError(message)
        return cls(snapshot, places)

    def save(self, state: str, what: str, files: list[str]) -> None:
        """Write the state in the place of the one before it."""
        inputs = {"names": files, "places": [_text(place) for place in self.places]}
        with naming(state, "cannot be written"), replaced_whole(Path(state)) as file:
            _write(file, {what: self.snapshot, "files": json.dumps(inputs).encode()})

    @staticmethod
    def remove(state: str) -> None:
        """Forget a state, if there is one."""
        with naming(state, "cannot be removed"):
            Path(state).unlink(missing_ok=True)


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _write(file: IO[bytes], parts: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            # No time of writing: equal states are equal files.
            archive.writestr(zipfile.ZipInfo(name), content)


def _text(place: Place | None) -> dict[str, object] | None:
    if place is None:
        return None
    return {"position": place.position, "schema": place.schema.serialize().to_pybytes().hex()}


def _place(given: dict[str, object] | None) -> Place | None:
    if given is None:
        return None
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(str(given["schema"]))))
    return Place(int(str(given["position"])), schema)
