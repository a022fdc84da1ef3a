//! Polynomials of words modulo the prime 2^127 - 1. Such a polynomial serves as a fingerprint of
//! the words' order. See R. Karp and M. Rabin, "Efficient randomized pattern-matching algorithms",
//! 1987.
//!
//! The polynomial of the words `w0 w1 ... wn` is `w0 b^n + w1 b^(n-1) + ... + wn`. The probability
//! that two sequences of random words have the same value is their length divided by 2^127.

/// 2^127 - 1.
const PRIME: u128 = u128::MAX >> 1;

/// The point at which the polynomial is evaluated. The point is taken from the digits of pi, to
/// show that it was not chosen for a hidden purpose.
const BASE: u128 = 0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344;

/// The value of a polynomial over a sequence of words. The value is less than the prime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Polynomial(u128);

impl Polynomial {
    /// The polynomial of words.
    pub(super) fn of(words: &[u128]) -> Self {
        // Process four words at a time. In each step, only one multiplication has to wait for the
        // previous step.
        const POWERS: [u128; 4] = [
            BASE,
            multiply(BASE, BASE),
            multiply(multiply(BASE, BASE), BASE),
            multiply(multiply(BASE, BASE), multiply(BASE, BASE)),
        ];
        let (fours, rest) = words.as_chunks::<4>();
        let value = fours.iter().fold(0, |value, &[first, second, third, fourth]| {
            let new = add(
                add(multiply(reduce(first), POWERS[2]), multiply(reduce(second), POWERS[1])),
                add(multiply(reduce(third), POWERS[0]), reduce(fourth)),
            );
            add(multiply(value, POWERS[3]), new)
        });
        let one = |value, &word: &u128| add(multiply(value, BASE), reduce(word));
        Polynomial(rest.iter().fold(value, one))
    }

    /// Returns the polynomial of these words followed by `words` more words, whose polynomial is
    /// `later`.
    pub(super) fn then(self, later: Polynomial, words: u64) -> Self {
        Polynomial(add(multiply(self.0, power(BASE, words.into())), later.0))
    }

    /// Returns the polynomial of all words except the last `words`, whose polynomial is `last`.
    pub(super) fn without(self, last: Polynomial, words: u64) -> Self {
        // This is the inverse, by Fermat's little theorem.
        let inverse = power(power(BASE, words.into()), PRIME - 2);
        Polynomial(multiply(add(self.0, PRIME - last.0), inverse))
    }

    pub(super) fn value(self) -> u128 {
        self.0
    }

    /// Returns the polynomial with this value, or `None` if no polynomial can have this value.
    pub(super) fn from_value(value: u128) -> Option<Self> {
        (value < PRIME).then_some(Polynomial(value))
    }
}

/// Returns a word modulo the prime. The calculation uses the fact that 2^127 is congruent to 1.
const fn reduce(word: u128) -> u128 {
    let folded = (word & PRIME) + (word >> 127);
    if folded >= PRIME { folded - PRIME } else { folded }
}

const fn add(a: u128, b: u128) -> u128 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

/// Returns the product of two numbers that are less than the prime.
const fn multiply(a: u128, b: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low) = (a >> 64, a & LOW);
    let (b_high, b_low) = (b >> 64, b & LOW);
    let low = a_low * b_low;
    // Each of these products is below 2^127, because the high halves are below 2^63.
    let middle = a_high * b_low + a_low * b_high;
    let high = a_high * b_high;
    let (low, carry) = low.overflowing_add(middle << 64);
    let high = high + (middle >> 64) + carry as u128;
    // The product is high 2^128 + low, and 2^128 is congruent to 2.
    add(reduce(low), reduce(high << 1))
}

const fn power(mut base: u128, mut exponent: u128) -> u128 {
    let mut value = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            value = multiply(value, base);
        }
        base = multiply(base, base);
        exponent >>= 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the product by adding and doubling so that intermediate results never exceed 128
    /// bits.
    fn product(mut a: u128, mut b: u128) -> u128 {
        let mut sum = 0;
        while b > 0 {
            if b & 1 == 1 {
                sum = (sum + a) % PRIME;
            }
            a = (a + a) % PRIME;
            b >>= 1;
        }
        sum
    }

    /// Evaluates the polynomial by its definition, word by word.
    fn evaluated(words: &[u128]) -> u128 {
        words.iter().fold(0, |value, word| (product(value, BASE) + word % PRIME) % PRIME)
    }

    fn any_word() -> impl Strategy<Value = u128> {
        prop_oneof![any::<u128>(), Just(0), Just(1), Just(PRIME - 1), Just(PRIME), Just(u128::MAX)]
    }

    proptest! {
        #[test]
        fn products_are_those_of_adding_and_doubling(a in any_word(), b in any_word()) {
            let (a, b) = (reduce(a), reduce(b));
            prop_assert_eq!(multiply(a, b), product(a, b));
        }

        #[test]
        fn oracle_words_give_the_value_of_their_polynomial(
            words in prop::collection::vec(any_word(), 0..23),
        ) {
            prop_assert_eq!(Polynomial::of(&words).value(), evaluated(&words));
        }

        #[test]
        fn parts_are_put_together_and_taken_apart(
            words in prop::collection::vec(any_word(), 0..23),
            cut in any::<prop::sample::Index>(),
        ) {
            let (first, last) = words.split_at(cut.index(words.len() + 1));
            let (first, last, rows) =
                (Polynomial::of(first), Polynomial::of(last), last.len() as u64);
            prop_assert_eq!(first.then(last, rows), Polynomial::of(&words));
            prop_assert_eq!(first.then(last, rows).without(last, rows), first);
        }
    }
}
