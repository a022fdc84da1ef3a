"""Compare the instruction counts of two benchmark builds: instructions.py BASE HEAD [PERCENT].

BASE and HEAD are binaries of the Criterion benchmark `interval_join`. Each case runs once under
Valgrind, which counts only the instructions of the measured code. Unlike times, these counts hardly
differ between runs, even on a shared machine. The exit code is 1 if HEAD executes over PERCENT
percent more instructions than BASE in any case. PERCENT defaults to 3.
"""

import math
import re
import subprocess
import sys

# With more threads, the count would include how long they wait for each other.
CASES = [
    f"{part}/{keys} keys, 1 threads" for part in ("list", "match") for keys in (10, 1000, 100000)
]
# Criterion calls the measured code there; the setup is outside.
MEASURED = "*Bencher*iter*"
VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
COUNT = re.compile(r"Collected : (\d+)")


def counted(binary: str, case: str) -> int | None:
    """Return the instruction count of a case, or None if the binary has no such case."""
    command = [*VALGRIND, f"--toggle-collect={MEASURED}", binary, "--bench", "--test", case]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    # Criterion starts a process to find gnuplot, which valgrind reports as well.
    return max(map(int, COUNT.findall(done.stderr))) or None


def lines(base: str, head: str) -> list[tuple[str, int, int, float]]:
    """Return the base binary's cases, with the counts in both binaries and the changes in percent.

    A case that the head binary lacks counts as infinitely slower, so that no check disappears.
    """
    found = []
    for case in CASES:
        if before := counted(base, case):
            after = counted(head, case) or 0
            found.append((case, before, after, 100 * (after / before - 1) if after else math.inf))
    return found


def main(base: str, head: str, percent: float = 3) -> int:
    """Print a table of the cases; return 1 if there are no cases, or if any case is too slow."""
    found = lines(base, head)
    rows = [f"| {case} | {b:,} | {a:,} | {change:+.2f} % |\n" for case, b, a, change in found]
    heading = "| case | before | after | change |\n| --- | ---: | ---: | ---: |\n"
    sys.stdout.writelines([heading, *rows])
    return int(not found or any(change > percent for *_, change in found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3], *map(float, sys.argv[3:])))
