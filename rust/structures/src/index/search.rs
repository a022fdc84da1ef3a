//! Searches within a node by counting the keys below a given key.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::instructions::Instructions;

/// Returns how many of `N` sorted keys are below `key`. `N` must be a multiple of 8.
#[inline]
pub fn count_below<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if Instructions::Avx512.are_used() {
            // SAFETY: the processor has the instructions.
            return unsafe { count_avx512(keys, key) };
        }
        if Instructions::Avx2.are_used() {
            // SAFETY: the processor has the instructions.
            return unsafe { count_avx2(keys, key) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if Instructions::Neon.are_used() {
        // SAFETY: the processor has the instructions.
        return unsafe { count_neon(keys, key) };
    }
    count_portable(keys, key)
}

/// Returns how many of `N` sorted keys are at or below `key`.
#[inline]
pub(crate) fn count_upto<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    key.checked_add(1).map_or(N, |above| count_below(keys, above))
}

fn count_portable<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    keys.partition_point(|&other| other < key)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,popcnt")]
fn count_avx512<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    let wanted = _mm512_set1_epi64(key);
    let mut below = 0;
    for eight in keys.as_chunks::<8>().0 {
        // SAFETY: eight keys have 64 bytes.
        let some = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
        below += _mm512_cmplt_epi64_mask(some, wanted).count_ones();
    }
    below as usize
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_avx2<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    let wanted = _mm256_set1_epi64x(key);
    let mut below = 0;
    for four in keys.as_chunks::<4>().0 {
        // SAFETY: four keys have 32 bytes.
        let some = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
        below +=
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(wanted, some))).count_ones();
    }
    below as usize
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
#[inline]
fn count_neon<const N: usize>(keys: &[i64; N], key: i64) -> usize {
    let wanted = vdupq_n_s64(key);
    // There are two sums, so that an addition does not need to wait for the previous one.
    let mut below = [vdupq_n_u64(0); 2];
    for four in keys.as_chunks::<4>().0 {
        for (sum, two) in below.iter_mut().zip(four.as_chunks::<2>().0) {
            // SAFETY: two keys have 16 bytes.
            let some = unsafe { vld1q_s64(two.as_ptr()) };
            // The result for a key below is all ones, which is -1.
            *sum = vsubq_u64(*sum, vcltq_s64(some, wanted));
        }
    }
    vaddvq_u64(vaddq_u64(below[0], below[1])) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_every_kernel_counts_alike() {
        let mut keys = [i64::MAX; 16];
        keys[..12].copy_from_slice(&[
            i64::MIN,
            -9,
            -9,
            -1,
            0,
            0,
            0,
            3,
            4,
            5,
            1 << 40,
            i64::MAX - 1,
        ]);
        for key in [i64::MIN, i64::MIN + 1, -9, -8, 0, 1, 3, 4, 6, 1 << 40, i64::MAX - 1, i64::MAX]
        {
            let below = keys.iter().filter(|&&other| other < key).count();
            let upto = keys.iter().filter(|&&other| other <= key).count();
            assert_eq!((count_below(&keys, key), count_upto(&keys, key)), (below, upto));
            assert_eq!(count_portable(&keys, key), below);
            #[cfg(target_arch = "x86_64")]
            if Instructions::Avx2.are_used() {
                // SAFETY: the processor has the instructions.
                assert_eq!(unsafe { count_avx2(&keys, key) }, below);
            }
            #[cfg(target_arch = "aarch64")]
            if Instructions::Neon.are_used() {
                // SAFETY: the processor has the instructions.
                assert_eq!(unsafe { count_neon(&keys, key) }, below);
            }
        }
    }
}
