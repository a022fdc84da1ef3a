"""How hard random tests try: `CAMPAIGN=20` in the environment has them try 20 times as much.

`CAMPAIGN=0.2` has them try a fifth as much. In these and in a default run `rng` draws the same
every time. In a campaign, which is more than a default run, it draws anew, and pytest's last lines
have the seed: `CAMPAIGN=20:7` draws again what seed 7 drew. Hypothesis prints its own.
"""

import os
import random

_factor, _, _seed = os.environ.get("CAMPAIGN", "1").partition(":")

FACTOR = float(_factor)
"""How many times as much is tried."""

ALL = FACTOR > 1
"""Whether this is a campaign, which tries all cases that a default run has a sample of."""

SEED = int(_seed) if _seed else random.SystemRandom().randrange(2**32) if ALL else 0
"""What all draws of this run begin with."""

# Processes that tests start, and those of pytest-xdist, draw from the same seed.
if "CAMPAIGN" in os.environ:
    os.environ["CAMPAIGN"] = f"{FACTOR:g}:{SEED}"


def tries(default: int) -> int:
    """Return how often to try what a default run tries so often."""
    return max(1, round(default * FACTOR))


def rng(name: str) -> random.Random:
    """Make the generator of one test, so that no test's draws depend on which others run."""
    return random.Random(f"{SEED} {name}")  # noqa: S311 - for tests
