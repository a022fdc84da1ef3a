"""The cases of a test: some in a default run, which meet each value, and all in a campaign.

A Spark query takes a second, so that the product of what such a test varies would take minutes.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import campaign


def grid(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Vary the arguments of these names, as `parametrize` does with a product.

    By default there are as many cases as the longest axis has values. Each value of a shorter axis
    is in several cases, drawn so that the values of two axes meet in any way.
    """
    names = tuple(axes)
    values = [[*axis] for axis in axes.values()]
    if campaign.ALL:
        return pytest.mark.parametrize(names, [*itertools.product(*values)])
    count = max(map(len, values))
    columns = []
    for name, axis in zip(names, values, strict=True):
        column = [*itertools.islice(itertools.cycle(axis), count)]
        campaign.rng(f"grid of {name}").shuffle(column)
        columns.append(column)
    return pytest.mark.parametrize(names, [*zip(*columns, strict=True)])


of_campaigns = pytest.mark.skipif(not campaign.ALL, reason="of campaigns")
"""What a test is marked with that another one makes needless in a default run."""


def keys_of_all_types(keys: Mapping[str, pa.Array]) -> pa.Table:
    """Make a table with a key of each type, for one query in place of a query for each type.

    Each row varies the key of one type, which column `kind` tells. All other keys of the row are
    alike in all rows, so that two rows of a kind have equal keys if those of their type are equal.
    """
    rows = [(kind, at) for kind, key in keys.items() for at in range(len(key))]
    columns = {
        name: key.take(pa.array([at if kind == name else 0 for kind, at in rows]))
        for name, key in keys.items()
    }
    kinds = pa.array([kind for kind, _ in rows])
    return pa.table({**columns, "kind": kinds, "ts": range(len(rows))})


def array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Build an array like `pa.array`, including dictionaries that older releases cannot build."""
    if not pa.types.is_dictionary(type_):
        return pa.array(values, type_)
    encoded = pa.array(values, type_.value_type).dictionary_encode()
    indices = encoded.indices.cast(type_.index_type)
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary)


def more(*cases: Any) -> tuple[Any, ...]:
    """Return these cases in a campaign, and none of them in a default run."""
    return cases if campaign.ALL else ()
