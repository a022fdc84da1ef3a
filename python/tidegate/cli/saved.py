"""Where a join of growing files was stopped, in a file from which the next run goes on."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from tidegate import StateError
from tidegate.cli.joining import Arguments, Job
from tidegate.files import naming, replaced_whole
from tidegate.growing import Place


@dataclass(frozen=True)
class Saved:
    """A join's snapshot, and how far both files had been read; None for what is not a file."""

    join: bytes
    places: tuple[Place | None, Place | None]

    @classmethod
    def load(cls, state: str, job: Job[Arguments]) -> "Saved | None":
        """Read a state; there is none before the first stop.

        Raises:
            StateError: The file is damaged, or of other files.
        """
        if not Path(state).exists():
            return None
        try:
            with naming(state, "cannot be read as a state"), zipfile.ZipFile(state) as archive:
                join = archive.read("join")
                sides = json.loads(archive.read("sides"))
                names = sides["names"]
                left, right = (_place(side) for side in sides["places"])
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            message = f"{state}: is no state of a join, or damaged ({error})"
            raise StateError(message) from error
        if names != [job.left.name, job.right.name]:
            message = (
                f"{state}: is of a join of {' and '.join(names)}; give these, or another state"
            )
            raise StateError(message)
        return cls(join, (left, right))

    def save(self, state: str, job: Job[Arguments]) -> None:
        """Write the state in the place of the one before it."""
        sides = {
            "names": [job.left.name, job.right.name],
            "places": [_text(place) for place in self.places],
        }
        with naming(state, "cannot be written"), replaced_whole(Path(state)) as file:
            _write(file, {"join": self.join, "sides": json.dumps(sides).encode()})

    @staticmethod
    def remove(state: str) -> None:
        """Forget a state, if there is one."""
        with naming(state, "cannot be removed"):
            Path(state).unlink(missing_ok=True)


def _write(file: IO[bytes], parts: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            # No time of writing: equal states are equal files.
            archive.writestr(zipfile.ZipInfo(name), content)


def _text(place: Place | None) -> dict[str, object] | None:
    if place is None:
        return None
    return {"position": place.position, "schema": place.schema.serialize().to_pybytes().hex()}


def _place(side: dict[str, object] | None) -> Place | None:
    if side is None:
        return None
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(str(side["schema"]))))
    return Place(int(str(side["position"])), schema)
