"""Every field of Arrow's C structures set to every bad value, for every type, one by one.

As a program, it runs the cases from a given number on and prints how each ended. If it crashes, the
last line therefore shows the case: `python malformed_cases.py 0`.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa

import c_data
import campaign
from c_data import AsArray, AsSchema, AsStream
from test_payload_types import PAYLOADS
from tidegate import Merge, TidegateError, agg, aggregate, interval_join, merge

LEAST, MOST = -(2**63), 2**63 - 1

# Formats that contradict the data. Formats of the same buffers with wider values, such as `Z` for
# `z`, are missing, because the numbers do not reveal them.
FORMATS = (
    None,
    *(b"", b"?", b"\xff", b"n", b"b", b"+s", b"+l", b"+m", b"+r", b"+vl", b"vu"),
    *(b"w:-1", b"w:99999999999", b"w:x", b"+w:-1", b"+w:3", b"+w:2147483647"),
    *(b"d:0,0", b"d:500,2", b"d:19,2,64", b"d:1", b"tsx:", b"+us:0", b"+ud:0,0", b"+us:200"),
)
METADATA = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\1\0\0\0\xff\xff\xff\xff")


# Below these nodes, the parent does not limit the length of a child. A wrong but possible length
# cannot be detected there, and the memory after the end is arbitrary.
UNBOUNDED = {"dictionary", "list_view", "dense_union", "run_end"}


@dataclass
class Case:
    """A call with a corrupted structure."""

    name: str
    call: Callable[[], object]


def set_to(structure, field: str, value) -> Callable[[], None]:
    return lambda: setattr(structure, field, value)


def set_in(structure, field: str, place: int, value) -> Callable[[], None]:
    def spoil() -> None:
        list_ = (c_data.P * (place + 1)).from_address(getattr(structure, field))
        list_[place] = value

    return spoil


def of_array(
    node: c_data.Array, *, bounded: bool = True
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name and the action of each way to corrupt one node."""
    n, count = node.n_buffers, node.n_children
    numbers = {
        "length": (-1, node.length + 1, *[2**31] * bounded, 2**45, 2**61, MOST, LEAST),
        "offset": (-1, *[1] * bounded, 2**45, 2**61, MOST, LEAST),
        "null_count": (-2, 0, 1, node.length + 1, 2**61, MOST, LEAST),
        "n_buffers": (-1, *{0, n - 1, n + 1} - {-1, n}, 2**31, 2**61, MOST, LEAST),
        "n_children": (-1, *{0, count - 1, count + 1} - {-1, count}, 2**31, 2**61, LEAST),
        "buffers": (None,),
        "children": (None,),
        "release": (None,),
        "dictionary": (None,) if node.dictionary else (c_data.at(node),),
    }
    for field, values in numbers.items():
        for value in values:
            yield f"{field}={value}", set_to(node, field, value)
    yield (
        "offset and length",
        lambda: (
            setattr(node, "offset", 2**62),
            setattr(node, "length", 2**62),
        ),
    )
    for field, size in (("buffers", n), ("children", count)):
        for place in range(size):
            yield f"{field}[{place}]=None", set_in(node, field, place, None)


def of_schema(node: c_data.Schema) -> Iterator[tuple[str, Callable[[], None]]]:
    count = node.n_children
    for given in FORMATS:
        yield f"format={given}", set_to(node, "format", c_data.text(given))
    for given in (None, b"\xff"):
        yield f"name={given}", set_to(node, "name", c_data.text(given))
    for given in METADATA:
        yield f"metadata={given}", set_to(node, "metadata", c_data.text(given))
    yield "flags", set_to(node, "flags", -1)
    for value in (-1, *{0, count + 1} - {count}, 2**31, 2**61, LEAST):
        yield f"n_children={value}", set_to(node, "n_children", value)
    for field in ("children", "release", "dictionary"):
        yield f"{field}=None", set_to(node, field, None)
    yield "dictionary", set_to(node, "dictionary", c_data.at(node))
    for place in range(count):
        yield f"children[{place}]=None", set_in(node, "children", place, None)
        yield f"children[{place}] is its parent", set_in(node, "children", place, c_data.at(node))


# The cases of different types are similar, so a default run tries every seventh.
STEP = 1 if campaign.ALL else 7

GOOD = pa.table({"ts": [0]})


def left(schema, array):
    return interval_join(AsArray(schema, array), GOOD, on="ts", lower=0, upper=9)


def right(schema, array):
    return interval_join(GOOD, AsStream(schema, array), on="ts", lower=0, upper=9)


def push(schema, array, announced: pa.Schema):
    operator = Merge(announced)
    operator.sources[0].push(AsStream(schema, array))
    operator.sources[0].close()
    return pa.Table.from_batches(operator, announced)


def merged(schema, array):
    return merge([AsStream(schema, array)])


def aggregated(schema, array):
    return aggregate(AsStream(schema, array), on="ts", size=1, aggs={"n": agg.count()})


def announced(schema, _array):
    return Merge(AsSchema(schema)).schema


def cases() -> Iterator[Case]:
    for name, values in PAYLOADS.items():
        batch = pa.record_batch({"ts": [0, 1, 2, 3], "bad": values})
        ways = [left, right, partial(push, announced=batch.schema)]
        if name == "int8":
            ways += [merged, aggregated, announced]
        yield from of_type(name, batch, ways)


def of_type(name: str, batch: pa.RecordBatch, ways: list) -> Iterator[Case]:
    schema, array = c_data.exported(batch)
    every = [
        ("array", node, partial(of_array, bounded=at < 2 or name not in UNBOUNDED))
        for at, node in enumerate(c_data.nodes(array))
    ]
    every += [("schema", node, of_schema) for node in c_data.nodes(schema)]
    for number, (kind, node, spoils) in enumerate(every):
        good = type(node).from_buffer_copy(node)
        lists = {field: bytes_of(node, field) for field in ("buffers", "children")}
        for what, spoil in spoils(node):
            # The first structures are tried in all ways, and the others in one way each.
            for call in ways if number < 3 else ways[number % 3 : number % 3 + 1]:

                def run(spoil=spoil, call=call, node=node, good=good, lists=lists):
                    spoil()
                    try:
                        return call(schema, array)
                    finally:
                        c_data.c.memmove(
                            c_data.c.addressof(node), c_data.at(good), len(bytes(good))
                        )
                        for address, content in lists.values():
                            c_data.c.memmove(address, content, len(content))

                yield Case(f"{name}, {way_of(call)}: {kind} {number}: {what}", run)


def way_of(call: Callable[[object, object], object]) -> str:
    return getattr(call, "func", call).__name__


def bytes_of(node, field: str) -> tuple[int, bytes]:
    address = getattr(node, field, None)
    size = 8 * node.n_children if field == "children" else 8 * getattr(node, "n_buffers", 0)
    return (address, c_data.c.string_at(address, size)) if address and size else (0, b"")


def ended(case: Case) -> str:
    """Describe how a case ended: `good`, `refused`, or the failure."""
    try:
        found = case.call()
        if isinstance(found, pa.Table):
            found.validate(full=True)
    except TidegateError as error:
        return "refused" if "bug in tidegate" not in str(error) else f"BUG {error}"
    except BaseException as error:  # noqa: BLE001 - a panic is not an Exception
        return f"{type(error).__name__} {error}"
    return "good"


if __name__ == "__main__":
    for at, one in enumerate(islice(cases(), 0, None, STEP)):
        if at < int(sys.argv[1]):
            continue
        print(at, one.name.replace("\n", " "), sep="\t", end="\t", flush=True)  # noqa: T201 - for the test
        print(ended(one).replace("\n", " "), flush=True)  # noqa: T201 - for the test
