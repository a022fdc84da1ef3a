//! Which kernels the processor has instructions for.

/// Whether the instructions of the widest kernel are there, and to be used.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx512() -> bool {
    crate::instructions::Instructions::Avx512.are_used()
}

/// Whether the instructions of the next kernel are there, and to be used.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx2() -> bool {
    crate::instructions::Instructions::Avx2.are_used()
}

/// Whether the instructions of the kernel for ARM are there, and to be used.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn has_neon() -> bool {
    crate::instructions::Instructions::Neon.are_used()
}
