"""The partitions of rows with a start and an end, compared with brute force, without Spark.

Layouts are chosen for random rows or drawn at random, and every pair of rows is tested.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark.layout import lengths
from tidegate.spark.layout.layout import Bucket
from tidegate.spark.layout.lengths import Sample, Side
from tidegate.spark.layout.overlap import (
    BOTH,
    LEFT,
    RIGHT,
    Layer,
    OverlapLayout,
    Rows,
    by_key,
    whole,
)

ENDS = np.iinfo(np.int64)
KEPT = ["left", "right", "both", "either"]

times = st.integers(-50, 50)
spans = st.one_of(st.integers(0, 5), st.integers(-3, 3), st.integers(0, 100))
extremes = st.sampled_from([ENDS.min, ENDS.max, 0, 2**62])
intervals = st.one_of(
    st.tuples(times, spans).map(lambda one: (one[0], one[0] + one[1])),
    st.tuples(times, spans).map(lambda one: (one[0], one[0] + one[1])),
    st.tuples(extremes, extremes),
)
sides = st.lists(st.tuples(st.integers(0, 3), intervals), max_size=20)


def rows(side: list[tuple[int, tuple[int, int]]]) -> Side:
    columns = [(key * 7919, *interval) for key, interval in side]
    return Side(*(np.array([row[at] for row in columns], np.int64) for at in range(3)))


def longest(side: Side) -> int:
    """Return the longest row as the driver computes it, limited to the range of 64 bits."""
    found = [int(end) - int(start) for start, end in zip(side.starts, side.ends, strict=True)]
    return min(ENDS.max, max([0, *found]))


def of_layout(layout: OverlapLayout, of: Side) -> Rows:
    return Rows(of.hashes % layout.keys, of.starts, of.ends)


def placed(layout: OverlapLayout, side: int, of: Side, most: int | None = None) -> list[dict]:
    """Return the partitions of each row, with whether the row is a copy there."""
    found: list[dict[int, bool]] = [{} for _ in of.hashes]
    hashes = np.arange(len(of.hashes)) * 31 + 5
    for sent in layout.places(side, of_layout(layout, of)._replace(hashes=hashes), most):
        assert np.all(np.diff(sent.rows) >= 0)
        for row, partition, copy in zip(*(one.tolist() for one in sent), strict=True):
            assert partition not in found[row], "a row is sent there twice"
            found[row][partition] = copy
    return found


def reported(layout: OverlapLayout, kept: str, left: dict, right: dict) -> list[int]:
    """Return the partitions that report a pair of rows sent to these partitions."""
    both = left.keys() & right.keys()
    if kept == "both":
        return [partition for partition in both if not left[partition]]
    if kept == "either" and layout.reports_at_home:
        # The two joins of a partition, as in `OverlapTask`
        joins = [(False, None), (True, False)]
        return [
            partition
            for partition, (of_left, of_right) in product(both, joins)
            if left[partition] == of_left and of_right in (None, right[partition])
        ]
    return [*both]


def check(layout: OverlapLayout, kept: str, left: Side, right: Side) -> None:
    """Check that each pair is reported once, and that kept rows have all partners at home."""
    sent = [placed(layout, side, of) for side, of in ((LEFT, left), (RIGHT, right))]
    again = [placed(layout, side, of, 3) for side, of in ((LEFT, left), (RIGHT, right))]
    assert again == sent
    for side, name, of in ((LEFT, "left", left), (RIGHT, "right", right)):
        if kept in (name, "both"):
            assert not len(layout.lost(side, of_layout(layout, of)))
            for homes in sent[side]:
                assert len([one for one, copy in homes.items() if not copy]) == 1
                assert kept == "both" or len(homes) == 1
    for (l, one), (r, other) in product(enumerate(zip(*left)), enumerate(zip(*right))):  # noqa: B905, E741
        if one[0] != other[0] or one[1] > one[2] or other[1] > other[2]:
            continue
        if one[1] > other[2] or other[1] > one[2]:
            continue
        assert len(reported(layout, kept, sent[LEFT][l], sent[RIGHT][r])) == 1
        if kept == "both":
            for mine, theirs in ((sent[LEFT][l], sent[RIGHT][r]), (sent[RIGHT][r], sent[LEFT][l])):
                assert not {one for one, copy in mine.items() if not copy} - theirs.keys()


@given(
    sides,
    sides,
    st.integers(1, 5),
    st.sampled_from(KEPT),
    st.sampled_from(["time", "hybrid"]),
    st.booleans(),
)
def test_each_pair_is_reported_once(left, right, partitions, kept, division, known):
    of_left, of_right = rows(left), rows(right)
    ends = (longest(of_left), longest(of_right)) if known or kept != "either" else (None, None)
    layout = lengths.chosen(Sample((of_left, of_right), ends, 1.0), partitions, kept, division)
    check(layout, kept, of_left, of_right)


cuts = st.lists(times, max_size=4, unique=True).map(sorted)


@st.composite
def layers(draw: st.DrawFn, kept: str, of: tuple[int, int], partitions: int) -> tuple[Layer, ...]:
    """Draw random layers in any partitions; the last one of a side is for its longest rows."""

    def cut(*, pieces: bool) -> Bucket:
        borders = draw(cuts)
        counts = [draw(st.integers(1, 3)) if pieces else 1 for _ in range(len(borders) + 1)]
        places: list[int] = []
        for count in counts:
            places += draw(st.permutations(range(partitions)))[:count]
        counts = [min(count, partitions) for count in counts]
        return Bucket(tuple(places), tuple(borders), tuple(counts) if pieces else ())

    if kept == "either" and draw(st.booleans()):
        borders = draw(cuts)[: partitions - 1]
        places = draw(st.permutations(range(partitions)))[: len(borders) + 1]
        return (Layer(BOTH, None, Bucket(tuple(places), tuple(borders))),)
    chosen = {"left": [LEFT], "right": [RIGHT], "both": [LEFT, RIGHT]}.get(kept)
    found = []
    for side in chosen or [draw(st.sampled_from([LEFT, RIGHT]))]:
        short = sorted(draw(st.lists(st.integers(0, 60), max_size=2)))
        last = draw(st.sampled_from([of[side], None]))
        every = [one for one in short if one < of[side]]
        found += [Layer(side, length, cut(pieces=draw(st.booleans()))) for length in [*every, last]]
    return tuple(found)


@given(st.data(), sides, sides, st.integers(1, 5), st.sampled_from(KEPT))
def test_any_layers_report_each_pair_once(data, left, right, partitions, kept):
    of_left, of_right = rows(left), rows(right)
    ends = longest(of_left), longest(of_right)
    buckets = [
        data.draw(st.one_of(st.just(whole(0)), layers(kept, ends, partitions))) for _ in range(3)
    ]
    check(OverlapLayout.of(partitions, buckets), kept, of_left, of_right)


@given(sides, sides, st.integers(1, 5), st.sampled_from(KEPT))
def test_buckets_of_keys_are_whole(left, right, partitions, kept):
    layout = by_key(partitions)
    assert not layout.is_cut
    assert not layout.reports_at_home
    check(layout, kept, rows(left), rows(right))
    assert all(len(homes) == 1 for homes in placed(layout, LEFT, rows(left)))


def test_where_rows_go():
    layers = (
        Layer(LEFT, 5, Bucket((0, 1, 2, 3), (10, 20, 30))),
        Layer(LEFT, 90, Bucket((4,))),
    )
    layout = OverlapLayout.of(5, [whole(2), layers])
    buckets = np.array([1, 1, 1, 1, 0, 1, -1, -5])
    starts = np.array([8, 10, 29, 29, 8, 30, 8, 8])
    ends = np.array([13, 10, 34, 35, 99, 29, 8, 8])
    [sent] = layout.places(LEFT, Rows(buckets, starts, ends))
    assert sent.partitions.tolist() == [0, 1, 2, 4, 2, 3, 2, 3]
    assert not sent.copies.any()
    ends = np.array([19, 25, 34, 90, 99, 29, 8, 8])
    found: dict[int, list[int]] = {}
    for sent in layout.places(RIGHT, Rows(buckets, starts, ends)):
        for row, partition in zip(sent.rows.tolist(), sent.partitions.tolist(), strict=True):
            found.setdefault(row, []).append(partition)
    assert found[0] == [0, 1, 4]
    assert found[1] == [0, 1, 2, 4]
    assert found[2] == [2, 3, 4]
    assert found[3] == [2, 3, 4]
    assert found[4] == [2]
    assert not layout.lost(LEFT, Rows(buckets, starts, ends)).size
    assert layout.lost(LEFT, Rows(buckets, starts, starts + 91)).tolist() == [0, 1, 2, 3, 5]
    assert not layout.lost(RIGHT, Rows(buckets, starts, starts + 91)).size


def test_a_row_is_sent_to_a_partition_once_and_at_home_where_it_is():
    layers = (
        Layer(LEFT, 100, Bucket((0, 1), (50,))),
        Layer(RIGHT, 100, Bucket((1, 0), (50,))),
    )
    layout = OverlapLayout.of(2, [layers])
    assert layout.reports_at_home
    [sent] = layout.places(LEFT, Rows(*map(np.array, ([0, 0], [10, 60], [60, 70]))))
    assert list(zip(*(one.tolist() for one in sent), strict=True)) == [
        (0, 0, False),
        (0, 1, True),
        (1, 0, True),
        (1, 1, False),
    ]


def sample(count: int, share: float, tied: int | None = None) -> Sample:
    """Draw short rows, a share of them 1000 times as long; a tied side has mostly one time."""
    made = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        starts = rng.integers(0, 10**9, count)
        if tied == seed - 1:
            starts[rng.random(count) < 0.8] = 5 * 10**8
        spans = rng.integers(0, 2 * 10**5, count)
        spans[rng.random(count) < share] *= 1000
        made.append(Side(np.zeros(count, np.int64), starts, starts + spans))
    left, right = made
    return Sample((left, right), (longest(left), longest(right)), 100.0)


def test_long_rows_of_pairs_cost_few_copies():
    found = lengths.by_time(sample(10_000, 0.001), 16, "either")
    assert found.sent <= 1.02 * found.rows
    assert found.fullest <= 1.1 * found.rows / 16


def test_long_rows_that_are_kept_have_a_layer_of_their_own():
    drawn = sample(10_000, 0.001)
    found = lengths.by_time(drawn, 16, "left")
    assert len(found.layers[0]) == 2
    short, long = found.layers[0]
    assert short.longest < 10**6 < long.longest == drawn.longest[LEFT]
    assert found.sent <= 2.2 * found.rows
    # With one layer, each right row would be sent to an additional fifth of all slices.
    [one] = lengths._kept(drawn, 16, LEFT).__next__()
    alone = lengths.measured(OverlapLayout.of(16, [(one,)]), drawn)
    assert found.cost < alone.cost


def test_short_rows_need_no_second_layer():
    found = lengths.by_time(sample(10_000, 0.0), 16, "left")
    assert len(found.layers[0]) == 1
    assert found.sent <= 1.01 * found.rows
    assert found.fullest <= 1.1 * found.rows / 16


@pytest.mark.parametrize("kept", ["left", "right"])
def test_one_start_with_many_rows_has_pieces(kept):
    found = lengths.by_time(sample(10_000, 0.0, tied=["left", "right"].index(kept)), 8, kept)
    assert found.has_pieces
    assert found.fullest < 1.6 * found.rows / 8


@pytest.mark.parametrize("kept", KEPT)
def test_a_hot_key_is_cut(kept):
    drawn = sample(10_000, 0.0)
    keys = np.random.default_rng(3).integers(0, 2**40, 10_000)
    keys[::2] = 7
    drawn = Sample(
        tuple(side._replace(hashes=keys) for side in drawn.sides), drawn.longest, drawn.weight
    )
    found = lengths.chosen(drawn, 8, kept, "hybrid")
    assert found.fullest <= 1.3 * found.rows / 8
    cut = [at for at, one in enumerate(found.layers) if len(one[0].cut.partitions) > 1]
    assert cut == [7]
    assert lengths.chosen(drawn, 8, kept, "auto").cost <= found.cost
    assert lengths.uncut(drawn, 8, kept).fullest > 3 * drawn.rows / 8
