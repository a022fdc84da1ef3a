"""Who gets which row: the halo argument of `tidegate.spark._layout`, checked against brute force.

No Spark here: the layouts are drawn at random and every pair of rows is tried.
"""

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark._balance import Sample, by_time, hybrid
from tidegate.spark._cycle import Cycle
from tidegate.spark._layout import Bucket, Layout, Reach, Span

times = st.lists(st.integers(-50, 50), min_size=0, max_size=30)
bounds = st.one_of(st.none(), st.integers(-60, 60))


def sample_of(left: list[int], right: list[int]) -> Sample:
    """A sample of one key that is all of the rows."""
    arrays = [np.array(rows, dtype=np.int64) for rows in (left, right)]
    return Sample(np.zeros_like(arrays[0]), arrays[0], np.zeros_like(arrays[1]), arrays[1], 1.0)


def slices(bucket: Bucket, time: int, span: Span) -> range:
    """The slices that a row is sent to."""
    [first], [last] = bucket.slices(np.array([time]), span)
    return range(first, last + 1)


@given(times, times, bounds, bounds, st.integers(1, 5), st.sampled_from(["left", "right", "both"]))
def test_every_pair_meets_in_the_homes_that_report_it(left, right, low, high, count, copied):
    if low is not None and high is not None and low > high:
        low, high = high, low
    reach = Reach.of(low, high)
    layout = by_time(sample_of(left, right), count, copied, reach)
    (bucket,) = layout.buckets
    for l_time in left:
        for r_time in right:
            gap = r_time - l_time
            if (low is not None and gap < low) or (high is not None and gap > high):
                continue
            l_slices = slices(bucket, l_time, layout.left_span)
            r_slices = slices(bucket, r_time, layout.right_span)
            if copied != "right":
                assert r_slices[0] in l_slices, "the right row's home lacks the left row"
            if copied != "left":
                assert l_slices[-1] in r_slices, "the left row's home lacks the right row"
            shared = [s for s in l_slices if s in r_slices]
            if copied == "both":
                assert shared.count(l_slices[-1]) == 1
            else:
                assert len(shared) == 1, "the pair would be reported by two partitions"


@given(
    st.lists(st.integers(-(10**4), 10**4) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=20),
    st.lists(st.integers(-(10**4), 10**4) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=20),
    st.tuples(st.integers(-60, 60), st.integers(0, 40)),
    st.integers(1, 5),
    st.sampled_from(["left", "right"]),
    st.integers(0, 4),
)
def test_pairs_of_streams_meet_in_one_bucket(left, right, bounds, count, copied, key):
    reach = Reach.of(bounds[0], sum(bounds))
    cycle = Cycle.of(count, copied, reach, keyed=True)
    sent = []
    for rows, span in ((left, cycle.left_span), (right, cycle.right_span)):
        buckets = np.full(len(rows), key % count)
        places = cycle.slices(buckets, np.array(rows, dtype=np.int64), span, None)
        homes = [
            [int(cycle.partition_of[place]) for place in range(first, last + 1)]
            for first, last in zip(*places, strict=True)
        ]
        assert all(len(set(home)) == len(home) for home in homes), "a row is sent there twice"
        sent.append(dict(zip(rows, homes, strict=True)))
    for l_time, l_buckets in sent[0].items():
        for r_time, r_buckets in sent[1].items():
            if bounds[0] <= r_time - l_time <= sum(bounds):
                assert len(set(l_buckets) & set(r_buckets)) == 1


def test_slices_of_streams_take_turns():
    cycle = Cycle.of(3, "right", Reach.of(-1, 1), keyed=False)
    times = np.arange(0, 16 * 5, 16)
    (first, last) = cycle.slices(np.zeros(5, int), times, cycle.left_span, None)
    assert cycle.partition_of[first].tolist() == [0, 1, 2, 0, 1]
    assert np.array_equal(first, last)


@given(times, times, st.integers(1, 5))
def test_the_sample_is_measured_as_it_is_sent(left, right, count):
    reach = Reach.of(-7, 3)
    layout = by_time(sample_of(left, right), count, "right", reach)
    (bucket,) = layout.buckets
    sent = []
    for side, span in ((left, layout.left_span), (right, layout.right_span)):
        rows = np.array(side, dtype=np.int64)
        # As the sample has them, hashes only matter for the pieces that rows at home go to.
        firsts, lasts = bucket.slices(rows, span, np.arange(len(rows)))
        for first, last in zip(firsts, lasts, strict=True):
            sent += [bucket.partitions[piece] for piece in range(first, last + 1)]
    assert layout.sent == len(sent)
    assert layout.fullest == max((sent.count(s) for s in set(sent)), default=0)


@pytest.fixture
def skewed() -> Sample:
    """Ten thousand rows a side, half of them on one key."""
    rng = np.random.default_rng(7)
    columns = []
    for _ in range(2):
        hashes = rng.integers(-(2**63), 2**63 - 1, 10_000)
        hashes[rng.random(10_000) < 0.5] = 12345
        columns += [hashes, rng.integers(0, 1_000_000, 10_000)]
    return Sample(*columns, weight=100.0)


@pytest.mark.parametrize("partitions", [2, 4, 16])
def test_a_hot_key_is_cut_until_no_partition_has_more_than_its_share(skewed, partitions):
    reach = Reach.of(-50, 50)
    layout = hybrid(skewed, partitions, "right", reach, most=partitions)
    assert layout.fullest <= 1.2 * skewed.rows / partitions
    assert layout.sent <= 1.05 * skewed.rows
    assert all(len(set(b.partitions)) == len(b.partitions) for b in layout.buckets)


def test_a_key_that_is_not_cut_makes_a_heavy_partition(skewed):
    layout = hybrid(skewed, 8, "right", Reach.of(-50, 50), most=1)
    assert not layout.is_cut
    assert layout.fullest > 3 * skewed.rows / 8


def test_only_the_hot_bucket_is_cut(skewed):
    layout = hybrid(skewed, 8, "right", Reach.of(-50, 50), most=8)
    cut = [number for number, bucket in enumerate(layout.buckets) if len(bucket.partitions) > 1]
    assert cut == [12345 % len(layout.buckets)]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (None, None),
        (None, -(2**63)),
        (2**63 - 1, None),
        (-(2**63), 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (-(2**62), 2**62),
        (-1, 1),
    ],
)
def test_slices_are_exact_at_the_ends_of_64_bits(low, high):
    reach = Reach.of(low, high)
    extremes = [-(2**63), -(2**62), 0, 2**62, 2**63 - 1]
    layout: Layout = by_time(sample_of(extremes, extremes), 4, "both", reach)
    (bucket,) = layout.buckets
    assert len(bucket.borders) == 3
    for span in (layout.left_span, layout.right_span):
        for time in extremes:
            ends = zip((span.first, span.last), (0, 3), strict=True)
            first, last = (
                edge if shift is None else bisect_right(bucket.borders, time + shift)
                for shift, edge in ends
            )
            assert slices(bucket, time, span) == range(first, last + 1)
