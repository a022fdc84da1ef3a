"""Serves a web page that shows a running operator's row counts, rate, latency and lag.

    python python/examples/live_page.py

Two threads push trades and quotes in real time, and a join runs in the background. The script
prints an address. The page at this address plots figures from the operator's `stats()`. Python's
own HTTP server sends these figures twice a second as server-sent events. `/metrics` reports them to
Prometheus. The page does not load anything from other servers.

`Watch` and `serve` accept any operator, so you can copy them into your own service.
"""

import argparse
import json
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pyarrow as pa

import tidegate as tg

TRADES = pa.schema([("ts", pa.timestamp("us")), ("symbol", pa.string()), ("price", pa.float64())])
QUOTES = pa.schema([("ts", pa.timestamp("us")), ("symbol", pa.string()), ("bid", pa.float64())])

# The seconds between two reads of the operator's statistics.
EVERY = 0.5


class Watch:
    """Reads the figures of an operator whose times are clock times in microseconds."""

    def __init__(self, operator: tg.Operator[Any]) -> None:
        self.operator = operator
        self.begin = time.monotonic()
        self.before = (self.begin, *self._rows(operator.stats()))

    @staticmethod
    def _rows(stats: Any) -> tuple[int, int]:  # noqa: ANN401 - has many types
        return stats["rows_in"], stats["rows_out"]

    def look(self) -> dict[str, Any]:
        """Return the current figures; rates are averages since the last call."""
        stats: Any = self.operator.stats()
        now, (rows_in, rows_out) = time.monotonic(), self._rows(stats)
        then, were_in, were_out = self.before
        self.before = (now, rows_in, rows_out)
        seconds = max(now - then, 1e-9)
        clock = time.time() * 1e6
        sources = {
            one["name"]: None
            if one["watermark"] is None or one["closed"]
            else (clock - one["watermark"]) / 1e3
            for one in stats["sources"]
        }
        median, most = (stats["latency"] or (None, None, None))[:2]
        return {
            "seconds": now - self.begin,
            "rows": {"pushed": rows_in, "given out": rows_out, "late": stats["rows_late"]},
            "rate": {
                "pushed": (rows_in - were_in) / seconds,
                "given out": (rows_out - were_out) / seconds,
            },
            "latency": {
                "median": None if median is None else median * 1e3,
                "99 %": None if most is None else most * 1e3,
            },
            "lag": sources,
            "waiting": stats["waiting"],
            "ended": all(one["closed"] for one in stats["sources"]),
        }


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tidegate: an operator at work</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; max-width: 66em; margin: 1em auto; padding: 0 1em;
       color: #222; background: #fff; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(30em, 1fr)); gap: 1em; }
figure { margin: 0; } figcaption { font-weight: 600; }
text { font-size: 12px; fill: #444; } .axis { stroke: #999; } .grid { stroke: #e5e5e5; }
polyline { fill: none; stroke-width: 2; }
</style></head><body>
<h1>An operator at work</h1>
<p id="state" role="status">waiting for the first figures</p>
<main></main>
<script>
"use strict";
const CHARTS = [
  ["rows", "Rows since the start", "rows"],
  ["rate", "Rate", "rows per second"],
  ["latency", "Time from a push to its results, since the start", "milliseconds"],
  ["lag", "How far watermarks are behind the clock", "milliseconds"],
];
const COLOURS = ["#0b62a4", "#c2510c", "#3a7d2c", "#7a3b9e"];
const SHOWN = 120; // seconds
const seen = [];
const W = 480, H = 220, LEFT = 70, RIGHT = 10, TOP = 10, BOTTOM = 44;

function round(most) { // to 1, 2 or 5 and zeros
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * ten).find((step) => step >= most);
}
function short(value) {
  const [by, unit] = value >= 1e6 ? [1e6, " M"] : value >= 1e4 ? [1e3, " k"] : [1, ""];
  return Number((value / by).toPrecision(3)) + unit;
}
function draw([key, title, unit]) {
  const names = [...new Set(seen.flatMap((one) => Object.keys(one[key])))];
  const values = seen.flatMap((one) => Object.values(one[key])).filter((one) => one !== null);
  const top = round(Math.max(...values, 1e-3)), end = seen.at(-1).seconds;
  const x = (seconds) => W - RIGHT - ((end - seconds) / SHOWN) * (W - LEFT - RIGHT);
  const y = (value) => H - BOTTOM - (Math.max(value, 0) / top) * (H - TOP - BOTTOM);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((part) =>
    `<line class="grid" x1="${LEFT}" x2="${W - RIGHT}" ` +
    `y1="${y(part * top)}" y2="${y(part * top)}"/>` +
    `<text x="${LEFT - 6}" y="${y(part * top) + 4}" text-anchor="end">${short(part * top)}</text>`);
  const ticks = [0, 30, 60, 90, 120].map((ago) =>
    `<text x="${x(end - ago)}" y="${H - BOTTOM + 16}" text-anchor="middle">${-ago}</text>`);
  const lines = names.map((name, at) => {
    const points = seen.filter((one) => one[key][name] !== null && one[key][name] !== undefined)
      .map((one) => `${x(one.seconds).toFixed(1)},${y(one[key][name]).toFixed(1)}`);
    return `<polyline stroke="${COLOURS[at % 4]}" points="${points.join(" ")}"/>`;
  });
  const last = seen.at(-1)[key];
  const legend = names.map((name, at) =>
    `<span style="color:${COLOURS[at % 4]}">&#9644;</span> ${name}: ` +
    (last[name] === null || last[name] === undefined ? "none" : short(last[name])));
  return `<figure id="${key}"><figcaption>${title} (${unit})</figcaption>` +
    `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="${title}, in ${unit}, over two minutes">` +
    `<title>${title}, in ${unit}</title>` + grid.join("") + ticks.join("") +
    `<line class="axis" x1="${LEFT}" x2="${LEFT}" y1="${TOP}" y2="${H - BOTTOM}"/>` +
    `<line class="axis" x1="${LEFT}" x2="${W - RIGHT}" y1="${H - BOTTOM}" y2="${H - BOTTOM}"/>` +
    `<text x="${(W + LEFT) / 2}" y="${H - 8}" text-anchor="middle">seconds from now</text>` +
    `<text x="14" y="${(H - BOTTOM) / 2}" text-anchor="middle" ` +
    `transform="rotate(-90 14 ${(H - BOTTOM) / 2})">${unit}</text>` +
    lines.join("") + `</svg><div>${legend.join(" &emsp; ")}</div></figure>`;
}
const events = new EventSource("events");
events.onmessage = (event) => {
  const one = JSON.parse(event.data);
  seen.push(one);
  while (seen[0].seconds < one.seconds - SHOWN) seen.shift();
  const held = one.waiting;
  document.getElementById("state").textContent =
    (one.ended ? "All sources have ended" : "At work") + ` after ${one.seconds.toFixed(0)} s. ` +
    (held ? `${held.rows} rows wait for ${held.source}, ` +
            `silent for ${held.seconds.toFixed(1)} s.` : "");
  document.querySelector("main").innerHTML = CHARTS.map(draw).join("");
  if (one.ended) events.close();
};
events.onerror = () => {
  document.getElementById("state").textContent = "The operator's process has ended.";
};
</script></body></html>
"""


class Handler(BaseHTTPRequestHandler):
    """Serves the page, the metrics, and the figures as server-sent events."""

    server: "Server"

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path == "/events":
            self.send_events()
        elif self.path == "/metrics":
            self.send("text/plain; version=0.0.4", tg.metrics(self.server.operator))
        elif self.path == "/":
            self.send("text/html; charset=utf-8", PAGE)
        elif self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            self.send_error(404)

    def send(self, kind: str, text: str) -> None:
        """Send a string as the response."""
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_events(self) -> None:
        """Send the figures until the sources end or the reader disconnects."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        watch = Watch(self.server.operator)
        try:
            while not self.server.ended.wait(EVERY):
                seen = watch.look()
                self.wfile.write(f"data: {json.dumps(seen)}\n\n".encode())
                if seen["ended"]:
                    return
        except ConnectionError:
            # The reader has disconnected.
            return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
        """Do not log requests."""


class Server(ThreadingHTTPServer):
    """A server for an operator's figures. It accepts only local connections."""

    daemon_threads = True

    def __init__(self, operator: tg.Operator[Any], port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.operator = operator
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()


def serve(operator: tg.Operator[Any], port: int = 0) -> Server:
    """Return a context manager that serves an operator's page; port 0 means any free port."""
    return Server(operator, port)


def ticks(seed: int, rate: float, value: str) -> Iterator[dict[str, Any]]:
    """Yield rows in real time, at `rate` rows per second."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    due = time.time()
    while True:
        due += draw.expovariate(rate)
        yield {"ts": int(due * 1e6), "symbol": draw.choice("ABCD"), value: draw.uniform(9, 11)}


def push(
    source: tg.Source, schema: pa.Schema, seed: int, rate: float, end: threading.Event
) -> None:
    """Push rows when they are due, until there are no more."""
    rows = ticks(seed, rate, schema.names[2])
    row = next(rows)
    with source:
        while not end.wait(0.01):
            now = time.time() * 1e6
            batch = []
            while row["ts"] <= now:
                batch.append(row)
                row = next(rows)
            if batch:
                columns = {name: [one[name] for one in batch] for name in schema.names}
                source.push(pa.table(columns).cast(schema))
            else:
                source.advance(row["ts"])


def run(port: int, rate: float, seconds: float | None) -> None:
    """Run the join and serve the page, for a given time or until Ctrl-C is pressed."""
    join = tg.IntervalJoin(
        TRADES, QUOTES, on="ts", by="symbol", lower="-100ms", upper="0s", memory_limit="256MB"
    )
    end = threading.Event()
    feeders = [
        threading.Thread(target=push, args=(source, schema, seed, rate, end), daemon=True)
        for seed, (source, schema) in enumerate(zip(join.sources, (TRADES, QUOTES), strict=True))
    ]
    with serve(join, port) as server, join.running(lambda _: None) as running:
        for feeder in feeders:
            feeder.start()
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        try:
            running.wait(seconds)
        except KeyboardInterrupt:
            pass
        finally:
            end.set()
            for feeder in feeders:
                feeder.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Look at an operator while it is working.")
    parser.add_argument("--port", type=int, default=8000, help="port of the page; 0 for any")
    parser.add_argument("--rate", type=float, default=2_000, help="rows per second and side")
    parser.add_argument("--seconds", type=float, help="duration; by default, until Ctrl-C")
    options = parser.parse_args()
    run(options.port, options.rate, options.seconds)
