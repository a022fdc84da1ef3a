"""A subinterpreter raises an error immediately, and the process ends normally."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

PATIENCE = 60

NAME = "_interpreters" if importlib.util.find_spec("_interpreters") else "_xxsubinterpreters"
pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec(NAME), reason="there are no subinterpreters"
)

SCRIPT = """
    import {name} as interpreters
    {before}
    other = interpreters.create()
    failed = interpreters.run_string(other, '''
    try:
        import tidegate
    except ImportError as error:
        print(error, flush=True)
    ''')
    {after}
    print("end", failed)
"""


@pytest.mark.parametrize("before", ["", "import tidegate"], ids=["first", "later"])
@pytest.mark.parametrize("after", ["", "interpreters.destroy(other)"], ids=["kept", "destroyed"])
def test_importing_in_a_subinterpreter(before, after):
    script = textwrap.dedent(SCRIPT).format(name=NAME, before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused, end = done.stdout.splitlines()
    assert refused.startswith("tidegate cannot be used in a subinterpreter")
    assert end == "end None"
