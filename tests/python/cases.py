"""The cases of a test: a campaign runs all, and a default run a sample that includes each value.

A Spark query takes a second, so running the product of all varied arguments would take minutes.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import campaign


def grid(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Vary the named arguments, as `parametrize` does with a product.

    By default there are as many cases as the longest axis has values. Each value of a shorter axis
    is used in several cases, at random, so that values of two axes meet in any combination.
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


of_campaigns = pytest.mark.skipif(not campaign.ALL, reason="runs only in campaigns")
"""Marks for tests that another test makes unnecessary in a default run."""


def keys_of_all_types(keys: Mapping[str, pa.Array]) -> pa.Table:
    """Create a table with a key of each type, so that one query covers all types.

    Each row varies the key of one type, which column `kind` names. All other keys are the same in
    all rows. Two rows of a kind therefore have equal keys if their keys of that type are equal.
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
