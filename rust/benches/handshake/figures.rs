//! Figures 17, 18, 20 and 21 and Table 2 of the paper. The number of nodes varies, but there are
//! always two threads.
//!
//! Each point is printed as a line of JSON. Roy, Teubner and Gemulla, "Low-Latency Handshake Join"
//! (PVLDB 2014), section 6.

use crate::{latency, option, rates};

const NODES: [usize; 5] = [1, 2, 4, 8, 16];

pub(crate) fn print() {
    let (window, rows) = (option("--rows-in-window", 1 << 16), option("--rows", 1 << 16));
    let rate = 2.0 * option("--rate", 10_000.0);
    for nodes in NODES {
        for form in rates::FORMS {
            let rates::Rate { rows, comparisons, balance, most_waiting } =
                rates::measure(form, window, nodes, rows);
            println!(
                r#"{{"figure": "rate", "form": "{}", "nodes": {nodes}, "rows/s": {rows:.0}, "comparisons/s": {comparisons:.0}, "balance": {balance:.3}, "waiting": {most_waiting}}}"#,
                form.0
            );
        }
        for form in latency::FORMS {
            let latency::Latency { mean, quantiles: [median, p99, most], .. } =
                latency::latency(form, rate, nodes);
            println!(
                r#"{{"figure": "latency", "form": "{}", "nodes": {nodes}, "mean": {mean:.3}, "median": {median:.3}, "p99": {p99:.3}, "most": {most:.3}}}"#,
                form.0
            );
        }
    }
}
