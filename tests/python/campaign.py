"""How hard random tests try: `CAMPAIGN=20` in the environment has them try 20 times as much.

In a default run `rng` draws the same every time. In a campaign it draws anew, and pytest's last
lines have the seed: `CAMPAIGN=20:7` draws again what seed 7 drew. Hypothesis prints its own.
"""

import os
import random

_factor, _, _seed = os.environ.get("CAMPAIGN", "1").partition(":")

FACTOR = int(_factor)
"""How many times as much is tried."""

SEED = int(_seed) if _seed else 0 if FACTOR == 1 else random.SystemRandom().randrange(2**32)
"""What all draws of this run begin with."""

# Processes that tests start, and those of pytest-xdist, draw from the same seed.
if "CAMPAIGN" in os.environ:
    os.environ["CAMPAIGN"] = f"{FACTOR}:{SEED}"


def tries(default: int) -> int:
    """Return how often to try what a default run tries so often."""
    return default * FACTOR


def rng(name: str) -> random.Random:
    """Make the generator of one test, so that no test's draws depend on which others run."""
    return random.Random(f"{SEED} {name}")  # noqa: S311 - for tests
