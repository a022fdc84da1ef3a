//! Slots: places that can be written, and not yet read.

use std::fmt;

use bytemuck::{AnyBitPattern, NoUninit, TransparentWrapper};

/// A place for a value, of which nobody can tell what is there.
#[repr(transparent)]
pub struct Slot<T>(T);

// SAFETY: a slot is a value and nothing else.
unsafe impl<T> TransparentWrapper<T> for Slot<T> {}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl<T: Copy> Slot<T> {
    /// Writes a value.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        self.0 = value;
    }

    /// The places of values that are to be written over.
    #[inline]
    pub fn of(values: &mut [T]) -> &mut [Self] {
        Self::wrap_slice_mut(values)
    }

    #[inline]
    pub(crate) fn all(values: &[T]) -> &[Self] {
        Self::wrap_slice(values)
    }

    /// The values, for code of this crate that writes without reading.
    #[inline]
    pub(crate) fn values(slots: &mut [Self]) -> &mut [T] {
        Self::peel_slice_mut(slots)
    }

    /// Writes one value everywhere, after which all can be read.
    pub fn fill(slots: &mut [Self], value: T) -> &mut [T] {
        let values = Self::values(slots);
        values.fill(value);
        values
    }

    /// Writes as many values as there are places, after which all can be read.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn copy<'a>(slots: &'a mut [Self], from: &[T]) -> &'a mut [T] {
        let values = Self::values(slots);
        values.copy_from_slice(from);
        values
    }
}

impl<T: AnyBitPattern + NoUninit> Slot<T> {
    /// The places, as places of values of another type.
    ///
    /// # Panics
    ///
    /// When they are not aligned for such values, or are no whole number of them.
    pub fn cast<U: AnyBitPattern + NoUninit>(slots: &mut [Self]) -> &mut [Slot<U>] {
        Slot::of(bytemuck::cast_slice_mut(Self::values(slots)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there() {
        let mut values = [0_u64; 4];
        let slots = Slot::of(&mut values);
        slots[0].set(1);
        assert_eq!(Slot::copy(&mut slots[1..3], &[2, 3]), [2, 3]);
        Slot::cast::<u32>(&mut slots[3..])[0].set(4);
        assert_eq!(
            values.map(|value| value as u32),
            [1, 2, 3, if cfg!(target_endian = "little") { 4 } else { 0 }]
        );
        assert_eq!(Slot::fill(Slot::of(&mut values), 9), [9; 4]);
        // What is there is not told to a log, either.
        assert_eq!(format!("{:?}", Slot::of(&mut values)[0]), "Slot { .. }");
    }
}
