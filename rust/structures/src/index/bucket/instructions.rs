//! Determines which kernels the processor can run.

/// Returns whether the widest kernel's instructions are supported and allowed.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx512() -> bool {
    crate::instructions::Instructions::Avx512.are_used()
}

/// Returns whether the next narrower kernel's instructions are supported and allowed.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx2() -> bool {
    crate::instructions::Instructions::Avx2.are_used()
}

/// Returns whether the ARM kernel's instructions are supported and allowed.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn has_neon() -> bool {
    crate::instructions::Instructions::Neon.are_used()
}
