"""The partitions of each row: the halo argument of `tidegate.spark.layout`, against brute force.

Spark is not used: the layouts are drawn at random, and every pair of rows is tested.
"""

import math
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark.layout.balance import Sample, by_time, chosen, hybrid, likely, measured
from tidegate.spark.layout.cycle import Cycle
from tidegate.spark.layout.layout import LIMIT, Bucket, Layout, Reach, Span, by_key

times = st.lists(st.integers(-50, 50), min_size=0, max_size=30)
bounds = st.one_of(st.none(), st.integers(-60, 60))


def sample_of(left: list[int], right: list[int]) -> Sample:
    """Create a sample of one key that contains all rows."""
    arrays = [np.array(rows, dtype=np.int64) for rows in (left, right)]
    return Sample(np.zeros_like(arrays[0]), arrays[0], np.zeros_like(arrays[1]), arrays[1], 1.0)


def slices(bucket: Bucket, time: int, span: Span) -> range:
    """Return the slices to which a row is sent."""
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
    st.sampled_from(["left", "right", "both"]),
    st.integers(0, 4),
)
def test_pairs_of_streams_meet_in_one_bucket_or_in_both_homes(
    left, right, bounds, count, copied, key
):
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
                if copied == "both":
                    assert l_buckets[-1] in r_buckets
                    assert r_buckets[0] in l_buckets
                else:
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
        # Hashes only determine the pieces to which rows at home are sent, as in a sample.
        firsts, lasts = bucket.slices(rows, span, np.arange(len(rows)))
        for first, last in zip(firsts, lasts, strict=True):
            sent += [bucket.partitions[piece] for piece in range(first, last + 1)]
    assert layout.sent == len(sent)
    assert layout.fullest == max((sent.count(s) for s in set(sent)), default=0)


@pytest.fixture
def skewed() -> Sample:
    """Draw ten thousand rows per side, half of them with one key."""
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


@pytest.mark.parametrize("division", ["auto", "hybrid"])
def test_buckets_of_which_the_sample_has_no_row_are_spread(division):
    """A sample has few rows per bucket, and later rows of the same keys show the tasks' load."""
    rng = np.random.default_rng(8)
    partitions = 500

    def drawn(rows):
        columns = []
        for _ in range(2):
            hashes = rng.integers(-(2**63), 2**63 - 1, rows)
            times = rng.integers(0, 10**9, rows)
            # A key that is heavy at one time, so that no border cuts it.
            is_heavy = rng.random(rows) < 0.03
            hashes[is_heavy], times[is_heavy] = 12345, 500
            columns += [hashes, times]
        return Sample(*columns, weight=1e6 / rows)

    reach = Reach.of(-50, 50)
    layout = chosen(drawn(500), partitions, "right", reach, division)
    found = measured(layout, drawn(200_000))
    assert found.fullest <= 12 * found.sent / partitions


@given(st.lists(st.integers(0, 50), min_size=1))
def test_likely_counts_add_up_to_the_counts(counts):
    likely_counts = likely(np.array(counts))
    assert math.isclose(likely_counts.sum(), sum(counts), abs_tol=1e-6)
    assert np.all(likely_counts >= 0)


def test_counts_that_chance_does_not_explain_stay():
    counts = np.array([100, 2, 3, 1, 2, 2, 0, 3] * 10)
    found = likely(counts)
    assert np.all(found[::8] == 100)
    # The other counts vary less than chance would explain.
    assert np.allclose(found.reshape(10, 8)[:, 1:], 13 / 7)


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


def placed(places: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(*(ends.tolist() for ends in places), strict=True))


def test_a_row_at_home_goes_to_the_piece_of_its_hash_and_a_copy_to_all_pieces():
    bucket = Bucket(partitions=(0, 1, 2, 3, 4), borders=(10, 20), pieces=(3, 1, 1))
    times, hashes = np.array([5, 9, 9, 10, 20]), np.array([3, 4, 5, 7, 8])
    home = placed(bucket.slices(times, Span(0, 0, copied=False), hashes))
    assert home == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    copies = placed(bucket.slices(times, Span(-10, 10, copied=True), hashes))
    assert copies == [(0, 3), (0, 3), (0, 3), (0, 4), (3, 4)]
    # Without hashes, the result consists of slices.
    assert placed(bucket.slices(times, Span(0, 10, copied=True))) == [
        (0, 1),
        (0, 1),
        (0, 1),
        (1, 2),
        (2, 2),
    ]


def test_an_open_end_reaches_the_first_or_the_last_slice():
    bucket = Bucket(partitions=(0, 1, 2), borders=(10, 20))
    times = np.array([0, 15, 30])
    ends = Span(None, None, copied=True)
    assert placed(bucket.slices(times, ends)) == [(0, 2), (0, 2), (0, 2)]
    assert placed(bucket.slices(times, ends._replace(copied=False))) == [(0, 0), (0, 0), (0, 0)]
    assert placed(bucket.slices(times, Span(0, None, copied=True))) == [(0, 2), (1, 2), (2, 2)]
    assert placed(bucket.slices(times, Span(None, 0, copied=True))) == [(0, 0), (0, 1), (0, 2)]


def test_slices_are_numbered_over_all_buckets():
    pieces = Bucket(partitions=(3, 4, 0), borders=(10,), pieces=(2, 1))
    buckets = (Bucket((1,)), Bucket((0, 1, 0), borders=(10, 20)), Bucket((2,)), pieces)
    layout = Layout(5, buckets, "right", Reach(-1, 1), rows=7.0, sent=10.0, fullest=4.0)
    times = np.array([15, 15, 25, 15, 5, 12])
    bucket = np.array([0, 1, 1, 2, 3, 3])
    hashes = np.array([0, 0, 0, 0, 3, 3])
    home = layout.slices(bucket, times, Span(0, 0, copied=False), hashes)
    assert placed(home) == [(0, 0), (2, 2), (3, 3), (4, 4), (6, 6), (7, 7)]
    copies = layout.slices(bucket, times, Span(-10, 5, copied=True), hashes)
    assert placed(copies) == [(0, 0), (1, 3), (2, 3), (4, 4), (5, 7), (5, 7)]
    unhashed = layout.slices(bucket, times, Span(0, 0, copied=False), None)
    assert placed(unhashed) == [(0, 0), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]
    assert layout.partition_of.tolist() == [1, 0, 1, 0, 2, 3, 4, 0]
    assert layout.before.tolist() == [-1, -1, -1, 1, -1, -1, -1, -1]
    assert layout.cost == 6.0
    assert layout.is_cut
    assert layout.has_pieces


def test_rows_are_told_from_copies_only_where_both_sides_are_cut_and_copied():
    whole, cut = Bucket((0,)), Bucket((0, 1), borders=(5,))
    reach = Reach(0, 0)
    assert Layout(2, (whole, cut), "both", reach).reports_at_home
    assert not Layout(2, (whole, cut), "left", reach).reports_at_home
    assert not Layout(2, (whole, whole), "both", reach).reports_at_home
    assert not Layout(2, (whole, cut), "both", reach).has_pieces


def test_a_division_by_key_is_one_bucket_a_partition():
    reach = Reach(-1, 1)
    layout = by_key(3, "left", reach)
    assert layout == Layout(3, (Bucket((0,)), Bucket((1,)), Bucket((2,))), "left", reach)
    assert not layout.is_cut
    assert layout.partition_of.tolist() == [0, 1, 2]


def test_spans_are_the_halo_of_either_side():
    reach = Reach(-3, 5)
    assert reach.left_span(copied=False) == Span(0, 0, copied=False)
    assert reach.left_span(copied=True) == Span(-8, 0, copied=True)
    assert reach.right_span(copied=False) == Span(-5, 3, copied=False)
    assert reach.right_span(copied=True) == Span(-5, 3, copied=True)
    assert Reach(None, 5).left_span(copied=True) == Span(None, 0, copied=True)
    assert Reach(None, 5).right_span(copied=True) == Span(-5, None, copied=True)
    assert Reach(-3, None).right_span(copied=True) == Span(None, 3, copied=True)
    assert Reach(0, LIMIT).width == LIMIT
    assert Reach(-1, LIMIT).width is None
    for copied, left, right in (
        ("left", True, False),
        ("right", False, True),
        ("both", True, True),
    ):
        layout = Layout(1, (), copied, reach)
        assert layout.left_span == reach.left_span(copied=left)
        assert layout.right_span == reach.right_span(copied=right)


def test_a_reach_is_no_narrower_than_asked_for_within_its_limit():
    assert Reach.of(-3, 5) == Reach(-3, 5)
    assert Reach.of(-LIMIT, LIMIT) == Reach(-LIMIT, LIMIT)
    assert Reach.of(-LIMIT - 1, LIMIT + 1) == Reach(None, None)
    assert Reach.of(LIMIT + 1, -LIMIT - 1) == Reach(LIMIT, -LIMIT)
    assert Reach.of(None, None) == Reach(None, None)
