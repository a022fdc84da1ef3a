//! Measures the points in the paper's Figures 8 to 13, one figure after another. The figures show
//! band joins over sliding windows of `w` rows.
//!
//! The figures for one thread measure only the indexes, as in `w2_index`. The figures for tasks
//! measure the whole index-based window join, except for its result rows. Each point is printed as
//! a line of JSON with the figure, the series, `x`, and the measured value.
//!
//! ```sh
//! cargo bench -p tidegate-benches --bench w2_figures > points.json              # all figures
//! cargo bench -p tidegate-benches --bench w2_figures -- chain depth > points.json
//! ```
//!
//! Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU" (SIGMOD 2020),
//! section 5.

mod indexes;
mod tasks;
#[path = "../w2_index/workload.rs"]
mod workload;

use std::process::ExitCode;

/// A point of a figure.
pub(crate) struct Point<'a> {
    pub(crate) figure: &'a str,
    pub(crate) series: &'a str,
    pub(crate) x: f64,
    /// The measured values, by name.
    pub(crate) measured: &'a [(&'a str, f64)],
}

impl Point<'_> {
    fn print(&self) {
        let measured: String =
            self.measured.iter().map(|(name, value)| format!(", \"{name}\": {value:.4}")).collect();
        println!(
            "{{\"figure\": \"{}\", \"series\": \"{}\", \"x\": {}{measured}}}",
            self.figure, self.series, self.x
        );
    }
}

const FIGURES: [(&str, fn()); 10] = [
    ("round-robin", indexes::round_robin),
    ("chain", indexes::chain),
    ("depth", indexes::depth),
    ("merge-ratio", indexes::merge_ratio),
    ("steps", indexes::steps),
    ("matches", indexes::matches),
    ("drift", indexes::drift),
    ("window", indexes::window),
    ("large", indexes::large),
    ("tasks", tasks::tasks),
];

fn main() -> ExitCode {
    // `cargo test --benches` runs this without `--bench`, only to check that it starts.
    if std::env::args().all(|argument| argument != "--bench") {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let known = FIGURES.map(|(name, _)| name);
    if let Some(unknown) = wanted.iter().find(|wanted| !known.contains(&wanted.as_str())) {
        eprintln!("there is no figure {unknown:?}; name any of: {}", known.join(" "));
        return ExitCode::from(2);
    }
    for (name, draw) in FIGURES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            draw();
        }
    }
    ExitCode::SUCCESS
}
