"""Settings shared by all tests: the number of Hypothesis examples, real data, an object store."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
from hypothesis import HealthCheck, settings

import campaign

# Examples have no deadline, because correct code would miss it on a busy machine. A campaign runs
# thousands of examples to find what these 50 miss.
settings.register_profile(
    "tidegate",
    max_examples=campaign.tries(200 if campaign.ALL else 50),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow] if campaign.ALL else [],
)
settings.load_profile("tidegate")

# A shell makes its background commands ignore Ctrl-C, and their children inherit this. Tests that
# send Ctrl-C to children would then never stop them.
signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` makes its command ignore SIGHUP in the same way.
if sys.platform != "win32":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def skipped(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """Return a line for each reason to skip tests, with their number."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple)
    )
    return [f"{count:5} skipped: {reason}" for reason, count in reasons.most_common()]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode
) -> None:
    """Print what was skipped, what was killed, and how to repeat a campaign's examples."""
    lines = skipped(terminalreporter) or ["No Python test was skipped."]
    if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        lines = ["The run did not finish, so this list may be incomplete.", *lines]
    # `make test` prints them at its end, below the output of other tools.
    if target := os.environ.get("SKIPPED_TESTS"):
        Path(target).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    else:
        terminalreporter.write_line("\n".join(lines))
    kills = [
        value
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "kills"
    ]
    if kills:
        terminalreporter.write_line("| query | victim | kills, rows equal after them |")
        terminalreporter.write_line("| --- | --- | --: |")
    for query, victim, count in kills:
        terminalreporter.write_line(f"| {query} | {victim} | {count} |")
    if campaign.ALL:
        terminalreporter.write_line(f"CAMPAIGN={campaign.FACTOR:g}:{campaign.SEED}")


SLOW = re.compile(
    r"test_(spark.*|cli|cli_(follow.*|formats|killed|merge|state)|files|growing.*|hosts|instructions"
    r"|interrupt.*|larger_than_memory|linear_time|live_page|memory_limit|out_of_memory"
    r"|partitioned_log|peers|readers|real_data|.*_real_data|snapshot_damage|any_state_bytes"
    r"|notebooks|site)"
)
"""The files that `make quick` leaves out: Spark, processes, signals, limits, real data, site.

Single tests of other files that take seconds have the marker `slow`.
"""


APART = re.compile(r"test_spark_(cluster|connect)")
"""The files that run Spark in separate processes."""

SHARED = re.compile(r"test_spark(?!_(cluster|connect|layout|overlap_layout|state))")
"""The files that share a Spark session; layouts and states are tested without one."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """With `--dist loadfile`, run all files that share a Spark session in one process.

    A second session would repeat Java's slow first run of each plan. No other file takes nearly as
    long, so these files run first.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - optional

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "session of Spark" if SHARED.search(file) else file

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the files that share a Spark session first, then those with separate Spark processes.

    These files take minutes. Other slow files follow, so that short files keep the processes busy
    at the end. A campaign extends each test's time limit by the factor of its tries.
    """
    items.sort(
        key=lambda item: (
            SHARED.match(item.path.name) is None,
            APART.match(item.path.name) is None,
            SLOW.fullmatch(item.path.stem) is None and item.get_closest_marker("slow") is None,
        )
    )
    for item in items:
        if SLOW.fullmatch(item.path.stem):
            item.add_marker("slow")
    for item in items if campaign.ALL else []:
        marker = item.get_closest_marker("timeout")
        limit = marker.args[0] if marker else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(limit * campaign.FACTOR), append=False)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of real data. Each subfolder has a README with source and row counts."""
    folder = Path(__file__).parents[1] / "data"
    assert (folder / "nycflights13" / "README.md").is_file()
    return folder


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start the command `tidegate`, and end it when the test ends."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tidegate", *arguments]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def bucket() -> Iterator[pafs.FileSystem]:
    """Create a bucket of an S3-compatible server and set the environment variables for it."""
    pytest.importorskip("moto.server", reason="needs moto[server]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = "from moto.server import main; main()"
    command = [sys.executable, "-c", script, "-H", "127.0.0.1", "-p", str(port)]
    with (
        pytest.MonkeyPatch.context() as environment,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,
    ):
        environment.setenv("AWS_ACCESS_KEY_ID", "key")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        try:
            while True:
                assert process.poll() is None
                with suppress(OSError):
                    # The first request takes long, because the server then loads its modules.
                    address = f"http://127.0.0.1:{port}/market"
                    request = urllib.request.Request(address, method="PUT")
                    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310 - our server
                    break
                time.sleep(0.1)
            yield pafs.S3FileSystem(
                endpoint_override=f"127.0.0.1:{port}", scheme="http", request_timeout=60
            )
        finally:
            process.terminate()
