//! The instructions that loops use. No other module queries the processor.

use std::env;
use std::fmt;
use std::sync::OnceLock;

/// The name of the environment variable that selects the instructions. For example, it can show how
/// a program would run on an older processor. The variable is read once, when a loop first needs
/// it.
pub const VARIABLE: &str = "TIDEGATE_SIMD";

/// Sets of instructions. Each set includes the earlier sets for the same architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// The instructions available on every processor of the target.
    Portable,
    /// NEON, the 128-bit vectors of 64-bit ARM processors.
    Neon,
    /// AVX2, with both sets of bit manipulation instructions and the population count instruction.
    Avx2,
    /// AVX-512: the foundation instructions, and the extensions for bytes, words, doublewords,
    /// quadwords and vector lengths.
    Avx512,
}

/// The error that is returned if the instructions named by [`VARIABLE`] cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionsError(String);

impl fmt::Display for InstructionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = available().iter().map(|one| one.name()).collect();
        let names = names.join("`, `");
        write!(f, "{VARIABLE}: expected one of `{names}` on this machine, got `{}`", self.0)
    }
}

impl std::error::Error for InstructionsError {}

impl Instructions {
    /// Returns the set's name, as written in [`VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Instructions::Portable => "portable",
            Instructions::Neon => "neon",
            Instructions::Avx2 => "avx2",
            Instructions::Avx512 => "avx512",
        }
    }

    /// Returns whether loops may use these instructions.
    #[inline]
    pub fn are_used(self) -> bool {
        self.are_of_target() && self <= instructions()
    }

    /// Returns whether processors of the target architecture can have these instructions.
    const fn are_of_target(self) -> bool {
        match self {
            Instructions::Portable => true,
            Instructions::Neon => cfg!(target_arch = "aarch64"),
            Instructions::Avx2 | Instructions::Avx512 => cfg!(target_arch = "x86_64"),
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Instructions::Avx512 => "AVX-512",
            Instructions::Avx2 => "AVX2",
            Instructions::Neon => "NEON",
            Instructions::Portable if cfg!(target_arch = "x86_64") => "SSE2",
            Instructions::Portable => "portable instructions",
        })
    }
}

/// Returns the instruction sets that this processor supports, narrowest first.
pub fn available() -> &'static [Instructions] {
    use Instructions::{Avx2, Avx512, Neon, Portable};
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("popcnt") {
            let is_wide =
                has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            return if is_wide { &[Portable, Avx2, Avx512] } else { &[Portable, Avx2] };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return &[Portable, Neon];
    }
    let _ = (Avx2, Avx512, Neon);
    &[Portable]
}

/// Returns the widest instruction set that loops use. This is the set named by [`VARIABLE`]. If the
/// variable is not set, it is the widest set that the processor supports. If [`chosen`] returns an
/// error, loops use the portable set.
#[inline]
pub fn instructions() -> Instructions {
    static USED: OnceLock<Instructions> = OnceLock::new();
    *USED.get_or_init(|| chosen().unwrap_or(Instructions::Portable))
}

/// Returns the instructions that [`VARIABLE`] selects, or an error if this processor supports no
/// set with that name.
pub fn chosen() -> Result<Instructions, InstructionsError> {
    match env::var_os(VARIABLE) {
        None => Ok(widest()),
        Some(name) => named(&name.to_string_lossy()),
    }
}

fn widest() -> Instructions {
    available().iter().copied().max().unwrap_or(Instructions::Portable)
}

fn named(name: &str) -> Result<Instructions, InstructionsError> {
    match name {
        "" => Ok(widest()),
        _ => available()
            .iter()
            .copied()
            .find(|one| one.name() == name)
            .ok_or_else(|| InstructionsError(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_instructions_that_are_there() {
        for &one in available() {
            assert_eq!(named(one.name()), Ok(one));
        }
        assert_eq!(named(""), Ok(widest()));
        assert!(Instructions::Portable.are_used());
    }

    #[test]
    fn instructions_of_other_processors_are_neither_used_nor_chosen() {
        use Instructions::{Avx2, Avx512, Neon, Portable};
        for one in [Portable, Neon, Avx2, Avx512] {
            let is_there = available().contains(&one);
            assert!(is_there || !one.are_used(), "{one}");
            assert_eq!(named(one.name()).is_ok(), is_there, "{one}");
        }
        assert_eq!(available().contains(&Neon), cfg!(target_arch = "aarch64"));
    }

    #[test]
    fn other_names_are_refused() {
        let refused = named("sse9").unwrap_err().to_string();
        assert!(refused.starts_with("TIDEGATE_SIMD: expected one of `portable`"), "{refused}");
        assert!(refused.ends_with("on this machine, got `sse9`"), "{refused}");
    }
}
