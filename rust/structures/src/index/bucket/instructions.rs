//! Determines for which kernels the processor has instructions.

/// Returns whether the instructions of the widest kernel exist and may be used.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx512() -> bool {
    crate::instructions::Instructions::Avx512.are_used()
}

/// Returns whether the instructions of the next kernel exist and may be used.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx2() -> bool {
    crate::instructions::Instructions::Avx2.are_used()
}

/// Returns whether the instructions of the kernel for ARM exist and may be used.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn has_neon() -> bool {
    crate::instructions::Instructions::Neon.are_used()
}
