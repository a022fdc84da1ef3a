"""Random joins compared with the nested loop: the same rows in the same order.

`test_threads.py` covers large data, where threads share the work.
"""

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given

import oracle
from drawing import CLOSED, KINDS, calls
from tidegate import interval_join, interval_join_batches


@given(calls())
def test_rows_and_order_are_those_of_the_nested_loop(call):
    left_table, right_table, join, arguments = call
    found = interval_join(left_table, right_table, **arguments)
    wanted = oracle.expected(left_table, right_table, join)
    # The type of a result key holds the keys of both sides, so values are compared as keys.
    names = arguments["by"] if join.how in ("right", "full") else []
    assert oracle.keys(found, names) == oracle.keys(wanted, names)
    oracle.assert_same(found.drop_columns(names), wanted.drop_columns(names))


@given(calls(), st.integers(1, 8), st.integers(1, 20))
def test_batches_and_threads_change_nothing(call, threads, batch_rows):
    left_table, right_table, _, arguments = call
    found = interval_join(left_table, right_table, **arguments)
    arguments = arguments | {"threads": threads, "batch_rows": batch_rows}
    reader = interval_join_batches(left_table, right_table, **arguments)
    batches = list(reader)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    assert reader.stats()["rows"] == found.num_rows
    oracle.assert_same(pa.Table.from_batches(batches, reader.schema), found)


@given(calls())
def test_chunks_change_nothing(call):
    left_table, right_table, _, arguments = call
    found = interval_join(left_table, right_table, **arguments)
    copies = [
        pa.Table.from_pylist(table.to_pylist(), table.schema) for table in (left_table, right_table)
    ]
    oracle.assert_same(found, interval_join(*copies, **arguments))


EXTREMES = [-(2**63), -(2**63) + 1, -2, -1, 0, 1, 2, 2**63 - 2, 2**63 - 1]


@given(
    st.lists(st.sampled_from(EXTREMES), max_size=8),
    st.lists(st.sampled_from(EXTREMES), max_size=8),
    st.tuples(*[st.one_of(st.none(), st.sampled_from(EXTREMES))] * 2),
    st.sampled_from(CLOSED),
    st.sampled_from(KINDS),
)
def test_sums_beyond_64_bits_saturate(left_times, right_times, bounds, closed, how):
    lower, upper = bounds if None in bounds else sorted(bounds)
    left_table = pa.table({"ts": pa.array(left_times, pa.int64())})
    right_table = pa.table({"at": pa.array(right_times, pa.int64())})
    join = oracle.Join(on=("ts", "at"), lower=lower, upper=upper, closed=closed, how=how)
    found = interval_join(
        left_table, right_table, on=join.on, lower=lower, upper=upper, closed=closed, how=how
    )
    oracle.assert_same(found, oracle.expected(left_table, right_table, join))
