"""The cases of a test in a default run and in a campaign."""

import itertools

import pytest

import campaign
import cases

AXES = {"how": ["inner", "left", "full", "anti"], "threads": [1, 2], "closed": ["both"]}
PRODUCT = [*itertools.product(*AXES.values())]


@pytest.mark.skipif(campaign.ALL, reason="a campaign runs all cases")
def test_a_default_run_meets_each_value():
    names, rows = cases.grid(**AXES).args
    assert names == ("how", "threads", "closed")
    assert len(rows) == 4
    assert {*rows} < {*PRODUCT}
    for axis, column in zip(AXES.values(), zip(*rows, strict=True), strict=True):
        assert {*column} == {*axis}
    assert cases.grid(**AXES).args[1] == rows
    assert cases.more("right") == ()


def test_a_campaign_takes_all_cases(monkeypatch):
    monkeypatch.setattr(campaign, "ALL", True)
    assert cases.grid(**AXES).args[1] == PRODUCT
    assert cases.more("right") == ("right",)


@pytest.mark.parametrize(("factor", "tried"), [(1, 300), (20, 6_000), (0.2, 60), (0.001, 1)])
def test_tries_are_multiplied_and_never_none(monkeypatch, factor, tried):
    monkeypatch.setattr(campaign, "FACTOR", factor)
    assert campaign.tries(300) == tried
