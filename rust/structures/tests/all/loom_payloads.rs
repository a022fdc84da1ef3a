//! Counted payloads for the loom models of gates. The crate with the published algorithms also uses
//! this file.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use tidegate_sync::explore;

/// A payload that counts the payloads that exist.
pub(crate) struct CountedPayload(pub(crate) Arc<AtomicUsize>);

impl CountedPayload {
    pub(crate) fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        CountedPayload(alive.clone())
    }
}

impl Drop for CountedPayload {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Explores `model`. At the end, every payload that the model created must have been dropped.
pub(crate) fn check(preemptions: usize, model: impl Fn(&Arc<AtomicUsize>) + Send + Sync + 'static) {
    explore(Some(preemptions), move || {
        let alive = Arc::new(AtomicUsize::new(0));
        model(&alive);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "payloads alive after the gate was dropped");
    });
}
