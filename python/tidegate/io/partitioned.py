"""Writes a table as a folder of files, with a subfolder for each value of the given columns.

Subfolders are named as in Hive, for example `symbol=A/`, so that these columns are restored when
the whole folder is read.
"""

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Full, Queue

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidegate import SchemaError, TidegateError
from tidegate.io.addresses import HIDDEN
from tidegate.io.files import (
    BatchWriter,
    Format,
    converted,
    decoded,
    naming,
    sync_folder,
    take_permissions,
    with_wide_indices,
    without_views,
)
from tidegate.io.iso_times import as_text
from tidegate.io.leftovers import (
    MARK_SUFFIX,
    folders_of,
    mark_of,
    remove_leftovers,
    temporary_stem,
)
from tidegate.io.locks import try_lock
from tidegate.io.read_files import NULL_FOLDER

WRITTEN = {
    Format.PARQUET: ("parquet", "parquet"),
    Format.CSV: ("csv", "csv"),
    Format.ARROW: ("feather", "arrow"),
}
"""The pyarrow name and the file extension of each format."""

# pyarrow's default limit of 1,024 applies per batch, and users do not know the batch size.
MOST_FOLDERS = 1 << 20
# The number is well below the limit on the open files of a process, which is often 1,024.
OPEN_FILES = 256

# The interval at which a waiting thread checks for a signal or an error.
PATIENCE_S = 0.05


@contextmanager
def partitioned_writer(
    name: str, layout: Format, schema: pa.Schema, by: Sequence[str]
) -> Iterator[BatchWriter]:
    """Write a table to a folder that receives its final name when the block ends without an error.

    An existing folder is replaced.

    Args:
        name: The folder.
        layout: The format of the files.
        schema: The schema of the rows.
        by: The columns whose values determine each row's folder.

    Raises:
        SchemaError: A column is missing, or `by` names all columns.
        TidegateError: The folder cannot be written; the message names it.
    """
    _check(schema, by)
    target = Path(name).resolve()
    stem = target.with_name(temporary_stem())
    mark = stem.with_name(stem.name + MARK_SUFFIX)
    folder, old = folders_of(stem)
    with naming(name, f"cannot be written as {layout}"):
        remove_leftovers(target.parent)
        with mark.open("xb") as locked:
            try:
                # The mark shows other runs that the folder is in use, and contains its final name.
                try_lock(locked.fileno())
                locked.write(mark_of(stem, target.name))
                locked.flush()
                os.fsync(locked.fileno())
                _make(folder, target)
                writer = _Writer(folder, layout, _written_schema(schema, layout), by)
                try:
                    yield writer
                    writer.close()
                finally:
                    writer.stop()
                _sync(folder)
                _replace(folder, target, old)
            finally:
                # If neither folder has the final name, a later run renames the new folder to it.
                if target.exists() or not old.exists():
                    shutil.rmtree(folder, ignore_errors=True)
                # If the removal fails here, the mark lets a later run remove the folder.
                if not (folder.exists() or old.exists()):
                    mark.unlink(missing_ok=True)
        sync_folder(target.parent)


def _check(schema: pa.Schema, by: Sequence[str]) -> None:
    for column in by:
        if column not in schema.names:
            message = f"--partition-by: the result has no column `{column}`; it has "
            message += ", ".join(schema.names)
            raise SchemaError(message)
        if column.startswith(HIDDEN) or set(column) & {"=", "/", "\0"}:
            message = "--partition-by: readers would not recognize folders named after "
            message += f"column `{column}`; "
            message += "use one whose name does not begin with . or _ and does not contain = or /"
            raise SchemaError(message)
    if len(set(by)) == len(schema.names):
        message = "--partition-by: no columns would be left to write to the files; "
        message += "omit one of the partition columns"
        raise SchemaError(message)


def _check_values(batch: pa.RecordBatch, by: Sequence[str]) -> None:
    """Reject strings that cannot be represented in a folder name."""
    for name in by:
        texts = batch.column(name)
        if isinstance(texts, pa.DictionaryArray):
            # Dictionary values that no row uses are not written.
            texts = texts.dictionary.take(texts.indices.unique().drop_null())
        if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
            continue
        is_cut = pc.or_(pc.match_substring(texts, "\0"), pc.equal(texts, NULL_FOLDER))
        if pc.any(is_cut).as_py():
            value = texts.filter(is_cut)[0].as_py()
            message = f"--partition-by: column `{name}` has the value {value!r:.80}, "
            message += "which no folder name can represent; exclude such rows with --where"
            raise TidegateError(message)


def _written_schema(schema: pa.Schema, layout: Format) -> pa.Schema:
    """Return the schema of the files.

    An Arrow file contains only one dictionary per column, but batches may have different ones.
    """
    plain = without_views(schema)
    if layout is Format.CSV:
        kinds = [one.with_type(pa.string()) if _is_time(one.type) else one for one in plain]
        plain = pa.schema(kinds, plain.metadata)
    return decoded(plain) if layout is Format.ARROW else with_wide_indices(plain)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _with_iso_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with times in the format of text files."""
    columns = [
        as_text(column, name) if _is_time(column.type) else column
        for column, name in zip(batch.columns, batch.schema.names, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _make(folder: Path, target: Path) -> None:
    """Create the new folder; if it replaces another, only its owner can access it at first."""
    folder.mkdir(0o700 if target.exists() else 0o777)


def _replace(folder: Path, target: Path, old: Path) -> None:
    """Rename the new folder to its final name; if this fails, keep the old folder."""
    if target.exists():
        _take_permissions(folder, target)
    try:
        if target.exists():
            target.rename(old)
        folder.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _take_permissions(folder: Path, target: Path) -> None:
    """Copy the permissions of the old folder, unless another user has replaced the new one.

    In a shared parent folder, another user could replace the new folder with a link. The link's
    target would then receive these permissions.
    """
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            message = f"{folder}: belongs to another user, who has replaced the new folder; "
            message += "write to a folder in which only you can create files"
            raise TidegateError(message)
        take_permissions(descriptor, target.stat())
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    """Flush all files to disk so that a full disk raises an error here."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())


class _Stopped(Exception):  # noqa: N818 - not an error
    """The writer has been stopped."""


class _Writer:
    """Passes batches to a writer thread, so that the calling thread can handle signals."""

    def __init__(self, folder: Path, layout: Format, schema: pa.Schema, by: Sequence[str]) -> None:
        self._schema = schema
        self._by = by
        self._is_text = layout is Format.CSV
        self._batches: Queue[pa.RecordBatch | None] = Queue(2)
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._work, name="tidegate-write", args=(folder, layout, by)
        )
        self._thread.start()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if self._is_text:
            batch = _with_iso_times(batch)
        rows = converted(batch, self._schema)
        _check_values(rows, self._by)
        self._put(rows)

    def close(self) -> None:
        """Wait until all files have been written."""
        self._put(None)
        while self._thread.is_alive():
            self._thread.join(PATIENCE_S)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop the thread, even if it has not written all rows."""
        self._stopped.set()
        self._thread.join()

    def _put(self, batch: pa.RecordBatch | None) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            with suppress(Full):
                self._batches.put(batch, timeout=PATIENCE_S)
                return

    def _rows(self) -> Iterator[pa.RecordBatch]:
        while not self._stopped.is_set():
            with suppress(Empty):
                batch = self._batches.get(timeout=PATIENCE_S)
                if batch is None:
                    return
                yield batch
        raise _Stopped

    def _work(self, folder: Path, layout: Format, by: Sequence[str]) -> None:
        kind, ending = WRITTEN[layout]
        fields = pa.schema([self._schema.field(name) for name in by])
        try:
            ds.write_dataset(
                self._rows(),
                folder,
                schema=self._schema,
                format=kind,
                partitioning=ds.partitioning(fields, flavor="hive"),
                basename_template=f"part-{{i}}.{ending}",
                max_partitions=MOST_FOLDERS,
                max_open_files=OPEN_FILES,
            )
        except _Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - the caller of the writer raises it
            self._failure = error if not self._stopped.is_set() else None
