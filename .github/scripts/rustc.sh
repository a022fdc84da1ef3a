#!/bin/sh
# Replaces rustc for tidegate's crates (RUSTC_WORKSPACE_WRAPPER). Clippy compiles and lints a crate
# in one step, with warnings as errors. lint_rust.sh takes longer, because it checks each crate and
# its dependencies separately.
exec clippy-driver "$@" -D warnings
