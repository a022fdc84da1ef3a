"""How many cases random tests try: with `CAMPAIGN=20` in the environment, 20 times as many.

With `CAMPAIGN=0.2` they try a fifth as many. With a factor of at most 1, and in a default run,
`rng` draws the same values every time. A campaign has a larger factor and draws new values, and the
last lines of pytest show the seed. `CAMPAIGN=20:7` repeats the draws of seed 7. Hypothesis prints
its own seed.
"""

import os
import random
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

_factor, _, _seed = os.environ.get("CAMPAIGN", "1").partition(":")

FACTOR = float(_factor)
"""The factor for the number of tries."""

ALL = FACTOR > 1
"""Whether this is a campaign, which tries all cases; a default run tries a sample."""

SEED = int(_seed) if _seed else random.SystemRandom().randrange(2**32) if ALL else 0
"""The seed of all draws in this run."""

# Processes that tests start, and the workers of pytest-xdist, use the same seed.
if "CAMPAIGN" in os.environ:
    os.environ["CAMPAIGN"] = f"{FACTOR:g}:{SEED}"


def tries(default: int) -> int:
    """Return the number of tries, given that of a default run."""
    return max(1, round(default * FACTOR))


def some(chance: random.Random, cases: Iterable[T], count: int) -> list[T]:
    """Return all cases in a campaign, and otherwise this many of them in a random order."""
    every = [*cases]
    return every if ALL else chance.sample(every, min(count, len(every)))


def rng(name: str) -> random.Random:
    """Create a generator for one test. Its draws do not depend on which other tests run."""
    return random.Random(f"{SEED} {name}")  # noqa: S311 - for tests
