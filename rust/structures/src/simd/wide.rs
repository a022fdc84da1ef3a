//! Runs code that is compiled for the wide instructions of newer processors.

#[cfg(target_arch = "x86_64")]
use crate::instructions::Instructions;

/// Work that is compiled for the instructions that its caller may use.
pub trait Work {
    /// The result of the work.
    type Output;

    /// Does the work. Mark this method with `#[inline(always)]`, along with every function it calls
    /// that benefits from wide instructions. A closure would be compiled separately, without wide
    /// instructions.
    fn run(self) -> Self::Output;
}

/// Does `work`. On a processor with AVX2, the version compiled for AVX2 runs. Every 64-bit ARM
/// processor has NEON, so the compiler always uses NEON there.
///
/// JUSTIFICATION - Benefit: loops in operators compare eight numbers at a time instead of four,
/// without processor-specific code. Soundness: the processor's features are checked first.
#[inline]
pub fn wide<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn with_avx2<W: Work>(work: W) -> W::Output {
            work.run()
        }
        if Instructions::Avx2.are_used() {
            // SAFETY: the processor has the features.
            return unsafe { with_avx2(work) };
        }
    }
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count<'a>(&'a mut u32);

    impl Work for Count<'_> {
        type Output = u32;

        #[inline(always)]
        fn run(self) -> u32 {
            *self.0 += 1;
            *self.0
        }
    }

    #[test]
    fn the_work_is_done_once() {
        let mut times = 0;
        assert_eq!(wide(Count(&mut times)), 1);
        assert_eq!(times, 1);
    }
}
