//! Runs loom models for the tests of every crate, and says how much each one explored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `model` once for each interleaving, of those with at most so many preemptions if a number
/// is given, and prints how many there were. Where loom finds a single one, no two threads share
/// anything: the model shows nothing, so it fails.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = {
        let runs = runs.clone();
        move || {
            // Relaxed: loom runs one interleaving after the other, and this counter is no part of
            // the model.
            runs.fetch_add(1, Ordering::Relaxed);
            model();
        }
    };
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.or(builder.preemption_bound);
    builder.check(counted);
    let runs = runs.load(Ordering::Relaxed);
    println!("{}: {runs} interleavings", std::thread::current().name().unwrap_or("a model"));
    assert!(runs > 1, "the model has one interleaving; let two threads use what they share");
}
