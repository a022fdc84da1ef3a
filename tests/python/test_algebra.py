"""Relations between results, for tables that are larger than the blocks of the core."""

from pathlib import Path

import pytest

import algebra
import campaign


def rows_of(number: int) -> int:
    """Return the largest number of rows in a table of a world.

    In a default run, every eighth world has tables with more rows than the blocks of 2^15 rows. In
    a campaign, every 20th world has a million rows, and every 200th has ten million.
    """
    if not campaign.ALL:
        return 3_000 if number % 8 else 40_000
    return 10_000_000 if number % 200 == 199 else 1_000_000 if number % 20 == 19 else 100_000


@pytest.mark.parametrize("name", algebra.RELATIONS)
def test_a_relation_holds(name: str, tmp_path: Path) -> None:
    for number in range(campaign.tries(8)):
        seed = f"{campaign.SEED} {name} {number}"
        assert algebra.check(name, algebra.World(seed, rows_of(number), tmp_path)) >= 0
