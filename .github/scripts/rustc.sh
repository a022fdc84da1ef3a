#!/bin/sh
# In the place of rustc for tidegate's crates (RUSTC_WORKSPACE_WRAPPER): Clippy compiles a crate and lints it at once, a warning
# being an error. lint_rust.sh takes longer, since it reads each crate, and each one that they need, for itself alone.
exec clippy-driver "$@" -D warnings
