"""Checkpoints for work on growing files. The `saved` module explains the steps and guarantees."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate import Operator, StateError, TidegateError
from tidegate.cli import saved as states
from tidegate.cli.feeding import Feeder
from tidegate.cli.saved import Saved
from tidegate.cli.tables import Input, Output
from tidegate.io.files import STANDARD_STREAM, Format, is_compressed, naming, writes_in_place
from tidegate.io.followers import Place
from tidegate.io.live import Live, Target, live_output
from tidegate.io.locks import held


@dataclass(frozen=True)
class Keeping:
    """The state file, and the interval at which it is written."""

    state: str
    every_s: float


@dataclass(frozen=True)
class Kept:
    """Work whose state is saved, and the state from which it resumed, if any."""

    keeping: Keeping
    what: str
    inputs: tuple[Input, ...]
    output: Output
    saved: Saved | None

    @classmethod
    @contextmanager
    def begun(
        cls, keeping: Keeping, what: str, inputs: Sequence[Input], output: Output
    ) -> Iterator["Kept"]:
        """Read the state, and lock it for this run until the block ends.

        Raises:
            StateError: The state is damaged, belongs to a different command, or is in use by
                another run.
            TidegateError: The state of this command cannot be saved.
        """
        path = Path(keeping.state)
        _check_lasting(inputs, output)
        _check_state(path, inputs, output)
        # The lock is next to the file itself, not next to a link to it.
        lock = path.resolve().with_name(f"{path.resolve().name}.lock")
        with ExitStack() as stack:
            with naming(keeping.state, "cannot be used"):
                stack.enter_context(held(lock, keeping.state))
                lock.with_name(states.temporary_name(path)).unlink(missing_ok=True)
            saved = Saved.load(keeping.state)
            if saved is not None:
                saved.check_inputs(keeping.state, what, inputs)
                if saved.is_mended(inputs):
                    saved.check_mended(keeping.state)
                _check_unforced(keeping, output)
            yield cls(keeping, what, tuple(inputs), output, saved)

    @property
    def is_mended(self) -> bool:
        """Whether the types of CSV columns differ from those in the state."""
        return self.saved is not None and self.saved.is_mended(self.inputs)

    @property
    def places(self) -> Sequence[Place | None]:
        """The position up to which each file has been read."""
        return [None] * len(self.inputs) if self.saved is None else self.saved.places

    @contextmanager
    def writing(
        self, operator: Operator[Any], feeders: Sequence[Feeder]
    ) -> Iterator["Checkpoints"]:
        """Create or resume the output; write checkpoints, including a final one at the end.

        Raises:
            StateError: The state belongs to a different operator or a different output.
            TidegateError: The output or the state cannot be written.
        """
        state, output, known = self.keeping.state, self.output, None
        if self.saved is not None:
            self.saved.check_columns(state, output.layout, operator.schema, mended=self.is_mended)
            if self.is_mended:
                self._read_again(operator, feeders, self.saved)
            else:
                operator.restore(self.saved.snapshot)
            known = self.saved.output
        target = Target(Path(output.name), output.layout, operator.schema, output.force)
        with live_output(target, known) as live:
            checkpoints = Checkpoints(self, operator, feeders, live)
            # Written before the output has rows, because a new run rejects an output that has rows
            # but no state.
            checkpoints.write()
            yield checkpoints
            checkpoints.write()
            live.finish()
        if all(_closed(operator)):
            states.remove(state)

    def _read_again(self, operator: Operator[Any], feeders: Sequence[Feeder], saved: Saved) -> None:
        """Push the rows that the state includes again, with different column types.

        The output already contains their results. Results depend only on the rows, so they are the
        same as before.
        """
        for feeder, place in zip(feeders, saved.places, strict=True):
            for _ in feeder.read_again(place):
                for _ in iter(operator.poll, None):
                    pass


class Checkpoints:
    """Writes checkpoints while rows are being pushed; the same thread writes the output."""

    def __init__(
        self, kept: Kept, operator: Operator[Any], feeders: Sequence[Feeder], live: Live
    ) -> None:
        self._live = live
        self._kept = kept
        self._operator = operator
        self._feeders = feeders
        self._was_flushed = kept.saved is not None and kept.saved.flushed
        self._written: object = None
        self._due_s = 0.0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that the next checkpoint will include."""
        self._live.write_batch(batch)

    def write_if_due(self) -> None:
        """Write a checkpoint if it is due."""
        if time.monotonic() >= self._due_s:
            self.write()

    def write(self) -> None:
        """Save the input positions, the snapshot and the output position if any of them changed."""
        with ExitStack() as stack:
            for feeder in self._feeders:
                stack.enter_context(feeder.pushing)
            for batch in iter(self._operator.poll, None):
                self._live.write_batch(batch)
            places = tuple(feeder.place for feeder in self._feeders)
            now = places, _closed(self._operator)
            snapshot = None if now == self._written else self._operator.snapshot()
        if snapshot is not None:
            self._save(snapshot, places)
            self._written = now
        self._due_s = time.monotonic() + self._kept.keeping.every_s

    def _save(self, snapshot: bytes, places: Sequence[Place | None]) -> None:
        kept = self._kept
        Saved(
            kept.what,
            kept.inputs,
            tuple(place for place in places if place is not None),
            kept.output.layout,
            self._operator.schema,
            self._live.prepare(),
            snapshot,
            flushed=self._was_flushed or any(feeder.is_flushed for feeder in self._feeders),
        ).save(kept.keeping.state)
        self._live.publish()


def _closed(operator: Operator[Any]) -> list[Any]:
    return [source["closed"] for source in operator.stats()["sources"]]


def _check_lasting(inputs: Sequence[Input], output: Output) -> None:
    """Reject inputs that cannot be reread, and outputs that cannot be truncated."""
    for given in inputs:
        if given.name == STANDARD_STREAM or not Path(given.name).is_file():
            # If a file was renamed, it may not have a successor yet; the state contains its
            # position.
            if given.name != STANDARD_STREAM and not Path(given.name).exists():
                continue
            label = "standard input" if given.name == STANDARD_STREAM else given.name
            message = f"{label}: --state needs files, and a pipe cannot be read again; "
            message += "write the pipe to a file first"
            raise TidegateError(message)
    if output.layout is Format.PARQUET:
        return
    if is_compressed(output.name):
        message = f"{output.name}: --state writes CSV uncompressed; give another -o"
        raise TidegateError(message)
    if writes_in_place(output.name):
        label = "standard output" if output.name == STANDARD_STREAM else output.name
        message = (
            f"{label}: --state needs a file as OUT, because a pipe cannot be truncated; "
            "give -o FILE"
        )
        raise TidegateError(message)


def _check_state(path: Path, inputs: Sequence[Input], output: Output) -> None:
    output.check_place(inputs)
    if path.exists() and not path.is_file():
        message = f"{path}: is not a file; give a file to --state"
        raise TidegateError(message)
    for name in [*(given.name for given in inputs), output.name]:
        if path.resolve() == Path(name).resolve() or (
            path.exists() and Path(name).exists() and path.samefile(name)
        ):
            message = f"{path}: cannot be the same file as {name}; choose another file for --state"
            raise TidegateError(message)


def _check_unforced(keeping: Keeping, output: Output) -> None:
    if output.force:
        message = (
            f"{keeping.state}: resumes {output.name}, which --force would replace; "
            "omit --force, or remove the state to start over"
        )
        raise StateError(message)
