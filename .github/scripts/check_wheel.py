"""Check a wheel's size, types, licence and list of crates: check_wheel.py WHEEL."""

import json
import sys
import zipfile
from pathlib import Path

MOST_BYTES = 10_000_000


def faults(wheel: Path) -> list[str]:
    """Return a message for each fault in a wheel."""
    found = []
    if (size := wheel.stat().st_size) > MOST_BYTES:
        found.append(f"it is {size:,} bytes long; expected at most {MOST_BYTES:,}")
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        wanted = ("tidegate/py.typed", "tidegate/_tidegate.pyi", "/licenses/LICENSE")
        found += [f"it has no {end}" for end in wanted if not any(n.endswith(end) for n in names)]
        lists = [name for name in names if name.endswith(".cyclonedx.json")]
        crates = {
            crate["name"] for name in lists for crate in json.loads(files.read(name))["components"]
        }
    if not {"arrow-array", "pyo3"} <= crates:
        found.append(f"its list of crates (CycloneDX) lacks arrow-array or pyo3: {sorted(crates)}")
    return found


if __name__ == "__main__":
    wheel = Path(sys.argv[1])
    if wrong := faults(wheel):
        sys.exit(f"{wheel.name}: " + "; ".join(wrong))
