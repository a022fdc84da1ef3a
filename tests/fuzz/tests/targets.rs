//! Runs all targets on their seeds, and the targets that draw their actions on random bytes.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tidegate_fuzz::{TARGETS, Target};

fn target(wanted: &str) -> Target {
    TARGETS.iter().find(|(name, _)| *name == wanted).expect("a target").1
}

#[test]
fn seeds() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        let files: Vec<_> = fs::read_dir(folder).expect("each target has seeds").collect();
        assert!(!files.is_empty(), "{name} has seeds");
        for file in files {
            let path = file.expect("a file").path();
            println!("{}", path.display());
            target(&fs::read(&path).expect("a file"));
        }
    }
}

/// The same inputs in every run; `make fuzz` tries others.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 60,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_joins(bytes in vec(any::<u8>(), 0..600)) {
        target("join")(&bytes);
    }

    #[test]
    fn random_overlaps(bytes in vec(any::<u8>(), 0..600)) {
        target("overlap")(&bytes);
    }

    #[test]
    fn random_snapshots(bytes in vec(any::<u8>(), 0..600)) {
        target("snapshot")(&bytes);
    }

    #[test]
    fn random_imports(bytes in vec(any::<u8>(), 0..600)) {
        target("import")(&bytes);
    }

    #[test]
    fn random_aggregations(bytes in vec(any::<u8>(), 0..600)) {
        target("aggregate")(&bytes);
    }

    #[test]
    fn random_rolling_windows(bytes in vec(any::<u8>(), 0..600)) {
        target("rolling")(&bytes);
    }

    #[test]
    fn random_merges(bytes in vec(any::<u8>(), 0..400)) {
        target("merge")(&bytes);
    }
}
