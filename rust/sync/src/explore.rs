//! Runs loom models for the tests of every crate. For each model, prints the number of
//! interleavings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `model` once for each interleaving, and prints the number of interleavings. If
/// `preemptions` is given, only interleavings with at most that many preemptions are run. If loom
/// finds only one interleaving, the threads share nothing. The model then proves nothing, and the
/// test fails.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = {
        let runs = runs.clone();
        move || {
            // Relaxed: loom runs one interleaving after the other, and this counter is not part of
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
    assert!(runs > 1, "the model has only one interleaving; let two threads share data");
}
