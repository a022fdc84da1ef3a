"""Arrow's C structures, built with ctypes, to be corrupted and exported as a faulty producer would.

Each is a copy of a structure that pyarrow exports, with a release function that does nothing.
pyarrow's own release function would fail on the corrupted fields. Exported structures live as long
as the process.
"""

import ctypes as c
from collections.abc import Callable

import pyarrow as pa

P = c.c_void_p


class Schema(c.Structure):
    """`ArrowSchema`."""


class Array(c.Structure):
    """`ArrowArray`."""


class Stream(c.Structure):
    """`ArrowArrayStream`."""


RELEASE = c.CFUNCTYPE(None, P)
GET = c.CFUNCTYPE(c.c_int, P, P)
GET_ERROR = c.CFUNCTYPE(P, P)

Schema._fields_ = [
    *((name, P) for name in ("format", "name", "metadata")),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    *((name, P) for name in ("children", "dictionary", "release", "private_data")),
]
Array._fields_ = [
    *((name, c.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    *((name, P) for name in ("buffers", "children", "dictionary", "release", "private_data")),
]
Stream._fields_ = [
    *((name, P) for name in ("get_schema", "get_next", "get_last_error", "release")),
    ("private_data", P),
]

KEPT: list[object] = []


def kept(one):
    KEPT.append(one)
    return one


def at(structure: c.Structure) -> int:
    return c.addressof(kept(structure))


def text(given: bytes | None) -> int | None:
    return None if given is None else c.addressof(kept(c.create_string_buffer(given)))


@RELEASE
def release_array(array: int) -> None:
    Array.from_address(array).release = None


@RELEASE
def release_schema(schema: int) -> None:
    Schema.from_address(schema).release = None


@RELEASE
def release_stream(stream: int) -> None:
    Stream.from_address(stream).release = None


def function(of: object) -> int:
    return c.cast(of, P).value


def pointers(given: int | None, count: int) -> int | None:
    """Copy a list of pointers, with room for some null pointers."""
    if not given:
        return given
    copy = (P * (count + 4))()
    copy[:count] = (P * count).from_address(given)
    return at(copy)


def copied(kind, address, release):
    """Copy an exported structure and everything below it."""
    copy = kept(kind.from_buffer_copy(kind.from_address(address)))
    copy.release = function(release)
    copy.children = pointers(copy.children, copy.n_children)
    if kind is Array:
        copy.buffers = pointers(copy.buffers, copy.n_buffers)
    for place, child in enumerate(children(copy)):
        list_of(copy)[place] = at(copied(kind, c.addressof(child), release))
    if copy.dictionary:
        copy.dictionary = at(copied(kind, copy.dictionary, release))
    return copy


def list_of(node: Schema | Array) -> c.Array:
    return (P * node.n_children).from_address(node.children)


def children(node):
    if node.children:
        yield from (type(node).from_address(child) for child in list_of(node))


def nodes(node):
    """Yield a structure and everything below it."""
    yield node
    for child in children(node):
        yield from nodes(child)
    if node.dictionary:
        yield from nodes(type(node).from_address(node.dictionary))


def exported(batch: pa.RecordBatch) -> tuple[Schema, Array]:
    schema, array = kept(Schema()), kept(Array())
    kept(batch)._export_to_c(c.addressof(array), c.addressof(schema))
    return (
        copied(Schema, c.addressof(schema), release_schema),
        copied(Array, c.addressof(array), release_array),
    )


new_capsule = c.pythonapi.PyCapsule_New
new_capsule.restype = c.py_object
new_capsule.argtypes = [P, c.c_char_p, P]


class AsArray:
    """Exports one batch through `__arrow_c_array__`."""

    def __init__(self, schema: Schema, array: Array) -> None:
        self.schema, self.array = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        moved = kept(Array.from_buffer_copy(self.array))
        return (
            new_capsule(at(self.schema), b"arrow_schema", None),
            new_capsule(at(moved), b"arrow_array", None),
        )


class AsSchema:
    """Exports a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __arrow_c_schema__(self) -> object:
        return new_capsule(at(self.schema), b"arrow_schema", None)


class AsStream:
    """Exports batches through `__arrow_c_stream__`, then an error if there is one."""

    def __init__(
        self, schema: Schema, *arrays: Array, error: int = 0, reason: bytes | None = None
    ) -> None:
        self.schema, self.arrays, self.error, self.reason = schema, arrays, error, reason

    def functions(self) -> tuple[Callable, Callable, Callable]:
        left = list(self.arrays)

        def get_schema(_stream: int, out: int) -> int:
            c.memmove(out, at(self.schema), c.sizeof(Schema))
            return 0

        def get_next(_stream: int, out: int) -> int:
            if not left:
                Array.from_address(out).release = None
                return self.error
            c.memmove(out, at(left.pop(0)), c.sizeof(Array))
            return 0

        def get_last_error(_stream: int) -> int | None:
            return text(self.reason)

        return get_schema, get_next, get_last_error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        get_schema, get_next, get_last_error = self.functions()
        stream = Stream(
            function(kept(GET(get_schema))),
            function(kept(GET(get_next))),
            function(kept(GET_ERROR(get_last_error))),
            function(release_stream),
            None,
        )
        return new_capsule(at(stream), b"arrow_array_stream", None)
