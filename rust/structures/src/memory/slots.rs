//! Slots, which are elements that can be written but not read yet.

use std::fmt;

use bytemuck::{AnyBitPattern, NoUninit, TransparentWrapper};

/// A memory location for a value. The contents of the location are unknown.
#[repr(transparent)]
pub struct Slot<T>(T);

// SAFETY: a slot consists of a value and nothing else.
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

    /// Returns values as slots that can be overwritten.
    #[inline]
    pub fn of(values: &mut [T]) -> &mut [Self] {
        Self::wrap_slice_mut(values)
    }

    #[inline]
    pub(crate) fn all(values: &[T]) -> &[Self] {
        Self::wrap_slice(values)
    }

    /// Returns slots as values. Code in this crate may use this method only to write values, not to
    /// read them.
    #[inline]
    pub(crate) fn values(slots: &mut [Self]) -> &mut [T] {
        Self::peel_slice_mut(slots)
    }

    /// Writes the same value to every slot. Returns the values, which can now be read.
    pub fn fill(slots: &mut [Self], value: T) -> &mut [T] {
        let values = Self::values(slots);
        values.fill(value);
        values
    }

    /// Writes one value to each slot. Returns the values, which can now be read.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ.
    pub fn copy<'a>(slots: &'a mut [Self], from: &[T]) -> &'a mut [T] {
        let values = Self::values(slots);
        values.copy_from_slice(from);
        values
    }
}

impl<T: AnyBitPattern + NoUninit> Slot<T> {
    /// Converts slots to slots of another type.
    ///
    /// # Panics
    ///
    /// Panics if the slots are not aligned for `U`, or if their total size is not a multiple of the
    /// size of `U`.
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
        // The contents of a slot do not appear in debug output, either.
        assert_eq!(format!("{:?}", Slot::of(&mut values)[0]), "Slot { .. }");
    }
}
