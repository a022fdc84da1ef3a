"""The live page shows the numbers of the operator, and a browser draws them."""

import importlib.util
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate as tg

EXAMPLE = Path(__file__).parents[2] / "python" / "examples" / "live_page.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHARTS = ("rows", "rate", "latency", "lag")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("live_page", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened_at(address: str) -> Any:
    return urllib.request.urlopen(address, timeout=60)  # noqa: S310 - our server


def events(address: str) -> Iterator[dict[str, Any]]:
    with closing(opened_at(f"{address}events")) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def test_the_example_shows_rows_as_they_happen():
    command = [sys.executable, str(EXAMPLE), "--port", "0", "--rate", "500", "--seconds", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        seen = []
        for one in events(address):
            seen.append(one)
            if len(seen) >= 4 and one["rows"]["given out"] > 0 and one["rate"]["pushed"] > 0:
                break
        process.terminate()
    assert all(set(CHARTS) <= set(one) for one in seen)
    rows = [one["rows"]["pushed"] for one in seen]
    assert rows == sorted(rows)
    assert rows[-1] > rows[0]
    assert seen[-1]["rows"]["late"] == 0
    assert set(seen[-1]["lag"]) == {"left source 0", "right source 0"}
    assert seen[-1]["latency"]["median"] <= seen[-1]["latency"]["99 %"]


def test_the_numbers_are_those_of_the_operator(example: Any):
    schema = pa.schema({"ts": pa.timestamp("us")})
    merge = tg.Merge(schema, sources=2)
    watch = example.Watch(merge)
    assert watch.look()["lag"] == {"source 0": None, "source 1": None}
    # Times long ago, so the lag is about the time since then.
    merge.sources[0].push(pa.table({"ts": [1_000_000, 2_000_000]}).cast(schema))
    seen = watch.look()
    assert seen["rows"] == {"pushed": 2, "given out": 0, "late": 0}
    assert seen["rate"]["pushed"] > 0
    ago = seen["lag"]["source 0"] / 1e3 + 2
    assert abs(ago - example.time.time()) < 60
    assert seen["waiting"]["source"] == "source 1"
    for source in merge.sources:
        source.close()
    merge.poll()
    seen = watch.look()
    assert seen["ended"]
    assert seen["rows"]["given out"] == 2
    assert watch.look()["rate"] == {"pushed": 0, "given out": 0}


def test_the_server_has_the_page_and_metrics_and_ends(example: Any):
    merge = tg.Merge(pa.schema({"ts": pa.timestamp("us")}))
    with example.serve(merge) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        page = opened_at(address).read().decode()
        # Nothing is fetched from other servers.
        assert "src=" not in page
        assert "http" not in page.replace("<!doctype html>", "")
        for unit in ("rows per second", "milliseconds", "seconds from now"):
            assert unit in page
        metrics = opened_at(f"{address}metrics").read().decode()
        assert metrics == tg.metrics(merge)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            opened_at(f"{address}else")
        merge.sources[0].close()
        (last,) = events(address)
        assert last["ended"]
    with pytest.raises(OSError, match="refused"):
        opened_at(address)


def test_a_browser_draws_the_page(example: Any, tmp_path: Path):
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no browser: apt-get install chromium, or put google-chrome on the PATH")
    merge = tg.Merge(pa.schema({"ts": pa.timestamp("us")}), sources=2)
    merge.sources[0].push(pa.table({"ts": [1, 2, 3]}).cast(merge.schema))
    merge.poll()
    # Closing the sources ends the updates, so the page is complete once it is loaded.
    for source in merge.sources:
        source.close()
    with example.serve(merge) as server:
        command = [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", f"--user-data-dir={tmp_path}"),
            *(
                "--virtual-time-budget=5000",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ),
            f"http://127.0.0.1:{server.server_port}/",
        ]
        opened = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert "All sources have ended" in opened.stdout
    for chart in CHARTS:
        assert f'<figure id="{chart}">' in opened.stdout
    assert "pushed: 3" in opened.stdout
    assert "NaN" not in opened.stdout
    assert [line for line in opened.stderr.splitlines() if "CONSOLE" in line] == []
