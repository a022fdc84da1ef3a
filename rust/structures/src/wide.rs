//! Code compiled for the wide instructions of newer processors.

/// Calls `work`, on a processor with AVX2 as compiled for such. What is to gain by that is inlined into `work`.
///
/// JUSTIFICATION - Benefit: comparisons of eight numbers at once instead of four, in a loop of an operator that knows
/// nothing of processors. Soundness: the features are checked for first.
#[inline]
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("popcnt") {
            // SAFETY: the processor has the features.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_work_is_done_once() {
        let mut times = 0;
        assert_eq!(super::wide(|| std::mem::replace(&mut times, 1)), 0);
        assert_eq!(times, 1);
    }
}
