//! A single program for all targets, because each program links all of tidegate: `TARGET=join fuzz
//! FOLDER`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("TARGET").unwrap_or_default();
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| panic!("TARGET: expected one of {}, got `{wanted}`", names.join(", ")))
        .1
});

// libFuzzer's hook ends the process on every panic, even one that tidegate turns into an error. The
// targets check those errors, and an uncaught panic ends the process anyway.
fuzz_target!(init: drop(std::panic::take_hook()), |data: &[u8]| TARGET(data));
