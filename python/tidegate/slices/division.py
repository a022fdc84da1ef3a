"""Divides a call's inputs into slices; sorts row groups that too many tasks would read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from tidegate import TidegateError
from tidegate.io.addresses import place_of
from tidegate.io.destinations import file_in
from tidegate.slices.cells import Cells
from tidegate.slices.cuts import borders, bytes_per_slice
from tidegate.slices.excess import often_read
from tidegate.slices.files import PreparedFile
from tidegate.slices.footers import HIGHEST, LOWEST, Groups
from tidegate.slices.layers import lengths
from tidegate.slices.plan import Side, Sorted
from tidegate.slices.samples import Sample
from tidegate.slices.sorting import Sorter
from tidegate.slices.task import Range, Rows, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Integers, Source, Times
    from tidegate.slices.layers import Access, Layers


@dataclass(frozen=True)
class Input:
    """An input of a call."""

    source: Source
    groups: Groups
    columns: tuple[str, ...]
    times: Times
    home: str | None = None

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The minimum and maximum possible row lengths in each row group."""
        longest = lengths(self.groups.first, self.groups.until)
        return np.zeros_like(longest), longest


@dataclass(frozen=True)
class Sorting:
    """The folder for sorted files, and their target size."""

    scratch: str | None
    target: Target
    identity: bytes
    """Distinguishes the call from other calls over the same files."""


@dataclass(frozen=True)
class Division:
    """The slices of a call, and the stages that sort rows first."""

    cut: Integers
    sides: list[Side]
    stages: tuple[tuple[Sorter, ...], ...]
    layers: Layers | None


def divided(
    inputs: Sequence[Input],
    access: Callable[[Integers], Sequence[Access]],
    sorting: Sorting,
    grid: Callable[[Integers], Integers] | None = None,
) -> Division:
    """Divide a call's inputs into slices.

    Args:
        inputs: The inputs.
        access: Returns what tasks read from each input, given the slice boundaries.
        sorting: The folder for sorted files, and their target size.
        grid: Moves times back to possible boundaries. None means that all times are possible.

    Raises:
        TidegateError: Row groups have to be sorted, but no scratch folder is given.
    """
    every = [one.groups for one in inputs]
    target = bytes_per_slice(sorting.target, every)
    cut = borders(every, target, grid)
    often = [_often_read(one, of) for one, of in zip(inputs, access(cut), strict=True)]
    samples = [_sample(one, some) for one, some in zip(inputs, often, strict=True)]
    if any(samples):
        spread = [
            groups if sample is None else _spread(groups, some, sample)
            for groups, some, sample in zip(every, often, samples, strict=True)
        ]
        cut = borders(spread, target, grid)
    if not len(cut):
        samples = [None] * len(inputs)
    of_inputs = access(cut)
    name = _name_of(sorting.identity, target, cut, inputs)
    sides: list[Side] = []
    sorters: list[Sorter] = []
    for at, (one, of, some) in enumerate(zip(inputs, of_inputs, often, strict=True)):
        sample = samples[at]
        if sample is None:
            sides.append(_in_place(one, of))
            continue
        if sorting.scratch is None:
            raise _without_scratch(one, of)
        cells = of.cells or Cells((of.ranges.cuts(cut),), (0,))
        folder = file_in(_folder(sorting.scratch), name)
        first_stage = Preparing(one, of, cells, sample, folder, f"{name}-{at}")
        chunks = [*_chunks(one.groups, np.flatnonzero(some), target)]
        sides.append(first_stage.side(some, chunks))
        sorters += first_stage.sorters(chunks)
    stages = (tuple(sorters),) if sorters else ()
    return Division(cut, sides, stages, of_inputs[0].layers)


def _often_read(one: Input, of: Access) -> np.ndarray:
    return often_read(one.groups, of.reads(one.groups, *one.lengths), of.needed)


def _sample(one: Input, some: np.ndarray) -> Sample | None:
    """Return a sample of the row groups to sort, or None if there are no such row groups."""
    if not some.any():
        return None
    return Sample.of(one.source, one.groups, one.times, np.flatnonzero(some))


def _spread(groups: Groups, some: np.ndarray, sample: Sample) -> Groups:
    """Replace row groups with a sample's row groups, which have short time spans."""
    return _together([groups.at(~some), sample.bins(int(groups.size[some].sum()))])


def _together(some: Sequence[Groups]) -> Groups:
    columns = ([getattr(one, field.name) for one in some] for field in fields(Groups))
    return Groups(*(np.concatenate(column) for column in columns))


def _in_place(one: Input, of: Access) -> Side:
    reads = of.reads(one.groups, *one.lengths)
    reach = None if of.is_own else of.ranges
    return Side(one.source, one.groups, one.columns, one.times, reads, reach, one.home)


def _chunks(groups: Groups, some: Integers, target: int) -> Iterator[Integers]:
    """Divide row groups into chunks of about `target` bytes."""
    begin = size = 0
    for end, of_group in enumerate(groups.size[some].tolist()):
        if size and size + of_group > target:
            yield some[begin:end]
            begin, size = end, 0
        size += of_group
    yield some[begin:]


def _name_of(identity: bytes, target: int, cut: Integers, inputs: Sequence[Input]) -> str:
    """Return a name for the sorted files; the name changes whenever their rows may change."""
    state = blake2b(identity, digest_size=8)
    state.update(f"{target}\0".encode() + cut.tobytes())
    for one in inputs:
        state.update("".join(file.identity for file in one.source.files).encode())
        state.update(one.groups.file.tobytes() + one.groups.number.tobytes())
    return state.hexdigest()


def _folder(given: str) -> str:
    """Return a path or URL that is also valid in processes with another working directory."""
    place = place_of(given, mapped=False)
    is_local = isinstance(place.filesystem, pafs.LocalFileSystem)
    return str(Path(place.path).absolute()) if is_local else given


def _without_scratch(one: Input, of: Access) -> TidegateError:
    groups = one.groups
    reads = of.reads(groups, *one.lengths)
    times = reads.sums(groups.size).sum() / groups.size.sum()
    message = f"{one.source.name}: its row groups contain rows from many time slices, or long "
    message += f"rows, so the tasks would read it {times:.2g} times; give scratch, an existing "
    message += "folder that all processes can access, so that preparation steps can sort these "
    message += "rows, or increase target"
    return TidegateError(message)


@dataclass(frozen=True)
class Preparing:
    """Prepares to sort some of an input's row groups."""

    input: Input
    access: Access
    cells: Cells
    sample: Sample
    folder: str
    name: str
    """The prefix of the sorted files' names."""

    def _name(self, number: int) -> str:
        return f"{self.name}-{number:06d}.parquet"

    def _cells_of(self, chunk: Integers) -> tuple[Cells, tuple[int, int, int]]:
        """Return the cells for some row groups, and the limits of the row times."""
        groups = self.input.groups
        first, last = int(groups.first[chunk].min()), int(groups.last[chunk].max())
        return self.cells.within(first, last), (first, last, int(groups.until[chunk].max()))

    def sorters(self, chunks: Sequence[Integers]) -> Iterator[Sorter]:
        """Yield a preparation step for each chunk."""
        one = self.input
        starts = _starts(one.groups)
        for number, chunk in enumerate(chunks):
            rows = Rows(
                name=one.source.name,
                schema=pa.schema([one.source.schema.field(name) for name in one.columns]),
                parts=parts_of(one.source.files, one.groups, chunk, starts),
                where=one.source.where,
                on=one.times.first,
                until=one.times.until,
                step=one.times.step,
                horizon=one.times.open_until,
                own=Range(LOWEST, HIGHEST),
                reach=None,
                home=None,
                restores=True,
            )
            yield Sorter(self._name(number), self.folder, rows, self._cells_of(chunk)[0])

    def side(self, some: np.ndarray, chunks: Sequence[Integers]) -> Side:
        """Return the side as it is after sorting.

        Args:
            some: A mask of the row groups to sort.
            chunks: For each preparation step, the numbers of the row groups that it sorts.
        """
        one, of = self.input, self.access
        rest = one.groups.at(~some)
        cells = [self._cells_of(chunk)[0] for chunk in chunks]
        groups = _together([rest, *(self._groups(at, chunk) for at, chunk in enumerate(chunks))])
        shortest, longest = (
            np.concatenate([of_rest[~some], *of_cells])
            for of_rest, of_cells in zip(
                one.lengths,
                zip(*(of_chunk.lengths() for of_chunk in cells), strict=True),
                strict=True,
            )
        )
        starts = np.concatenate(
            [_starts(one.groups)[~some], np.zeros(len(groups) - len(rest), np.int64)]
        )
        files = [
            PreparedFile.at(file_in(self.folder, self._name(number)))
            for number in range(len(chunks))
        ]
        return Side(
            one.source,
            groups,
            one.columns,
            one.times,
            of.reads(groups, shortest, longest),
            None if of.is_own else of.ranges,
            one.home,
            Sorted(one.groups, some, (*one.source.files, *files), starts),
        )

    @cached_property
    def _times(self) -> list[Integers]:
        """The sample's times in each length class."""
        return self.sample.by_length(self.cells.limits)

    def _groups(self, number: int, chunk: Integers) -> Groups:
        """Estimate the row groups in a sorted file."""
        groups = self.input.groups
        cells, limits = self._cells_of(chunk)
        first, last, until = cells.spans(*limits)
        share = cells.counts(limits[0], limits[1], self._times)
        share = share / share.sum() if share.any() else np.full(len(cells), 1 / len(cells))
        rows, size = (
            np.diff(np.round(np.cumsum([0, *share]) * of[chunk].sum())).astype(np.int64)
            for of in (groups.rows, groups.size)
        )
        file = np.full(len(cells), len(self.input.source.files) + number)
        return Groups(file, np.arange(len(cells)), rows, size, first, last, until)


def _starts(groups: Groups) -> Integers:
    """Return the position of each row group's first row in the input."""
    return np.cumsum(groups.rows) - groups.rows
