//! Measures the handshake joins on workload W3, a band in two dimensions over sliding windows, on
//! two threads:
//!
//! ```sh
//! cargo bench -p tidegate-benches --bench handshake                  # rates, and the sorter's buffer
//! cargo bench -p tidegate-benches --bench handshake -- latency      # latencies while rows arrive on time
//! cargo bench -p tidegate-benches --bench handshake -- figures > points.json    # both, by the number of nodes
//! ```
//!
//! Rates are measured after the windows have been filled. A latency is the time from the arrival of
//! a pair's later row until the pair is returned. Latencies are measured in a steady state, after
//! earlier rows have filled the windows. `--nodes`, `--rows`, `--rate` (rows per second and side),
//! `--window` and `--seconds` change the measurement. Before anything is measured, each variant's
//! pairs are checked against a nested loop.

mod figures;
mod latency;
mod rates;
mod workload;

use std::str::FromStr;

/// Returns the value of an option, or its default.
pub(crate) fn option<T: FromStr>(name: &str, default: T) -> T {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    match arguments.next() {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("{name}: not a number: {text}")),
        None => default,
    }
}

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let is_test = std::env::args().all(|argument| argument != "--bench");
    rates::check(if is_test { 500 } else { 5000 });
    if is_test {
        return;
    }
    let wants = |what: &str| std::env::args().any(|argument| argument == what);
    if wants("figures") {
        figures::print();
    } else if wants("latency") {
        latency::print();
    } else {
        rates::print();
    }
}
