//! The stored rows of one key and one side.

/// A buffer's first size. So many matches are copied without a loop, as most rows have no more.
const LEAST: usize = 8;

/// Numbers of rows in merged order, in a ring whose size is a power of two.
///
/// Rows enter at `tail` and leave at `head`; both only rise, and wrap. Their distance is the number of rows. The ring's
/// first [`LEAST`] numbers stand behind its end once more, so that as many can be read from anywhere in one piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    numbers: Box<[u32]>,
    head: u32,
    tail: u32,
    /// Rows before it have been reached by an interval that ends before the present.
    reached: u32,
}

impl Buffer {
    #[inline]
    fn at(&self, place: u32) -> usize {
        place as usize & (self.size() - 1)
    }

    #[inline]
    fn size(&self) -> usize {
        self.numbers.len().saturating_sub(LEAST)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Stores a row.
    #[inline]
    pub(super) fn push(&mut self, number: u32) {
        if self.len() == self.size() {
            self.resize((2 * self.size()).max(LEAST));
        }
        let at = self.at(self.tail);
        self.numbers[at] = number;
        if at < LEAST {
            let again = at + self.size();
            self.numbers[again] = number;
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets go of the oldest row.
    #[inline]
    pub(super) fn pop(&mut self) {
        debug_assert!(self.len() > 0, "no row is let go of twice");
        self.head = self.head.wrapping_add(1);
        // What a burst has taken is given back when it is over.
        if self.len() < self.size() / 8 && self.size() > LEAST {
            self.resize((self.size() / 4).max(LEAST));
        }
    }

    /// Notes that the interval has reached one row more.
    #[inline]
    pub(super) fn reach(&mut self) {
        self.reached = self.reached.wrapping_add(1);
    }

    #[cold]
    fn resize(&mut self, size: usize) {
        let mut numbers = vec![0; size + LEAST].into_boxed_slice();
        for place in 0..self.len() as u32 {
            let place = self.head.wrapping_add(place);
            numbers[place as usize & (size - 1)] = self.numbers[self.at(place)];
        }
        numbers.copy_within(..LEAST, size);
        self.numbers = numbers;
    }

    /// Adds the numbers of all rows to `found`.
    #[inline]
    pub(super) fn copy_all(&self, found: &mut Vec<u32>) {
        self.copy(self.len(), found);
    }

    /// Adds the numbers of the rows that have been reached to `found`.
    #[inline]
    pub(super) fn copy_reached(&self, found: &mut Vec<u32>) {
        let reached = self.reached.wrapping_sub(self.head);
        // Rows may have left before they were reached; the difference is then negative.
        self.copy(if reached.cast_signed() > 0 { reached as usize } else { 0 }, found);
    }

    #[inline]
    fn copy(&self, rows: usize, found: &mut Vec<u32>) {
        if self.numbers.is_empty() {
            return;
        }
        let (from, before) = (self.at(self.head), found.len());
        if rows <= LEAST {
            found.extend_from_slice(&self.numbers[from..from + LEAST]);
            found.truncate(before + rows);
        } else {
            let to = self.size().min(from + rows);
            found.extend_from_slice(&self.numbers[from..to]);
            found.extend_from_slice(&self.numbers[..rows - (to - from)]);
        }
    }

    /// Bytes held beside itself.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_leave_in_the_order_in_which_they_came() {
        let mut buffer =
            Buffer { head: u32::MAX - 20, tail: u32::MAX - 20, reached: u32::MAX - 20, ..Buffer::default() };
        let all = |buffer: &Buffer| {
            let mut found = vec![99];
            buffer.copy_all(&mut found);
            found.split_off(1)
        };
        let mut rows = std::collections::VecDeque::new();
        for number in 0..500_u32 {
            buffer.push(number);
            rows.push_back(number);
            // Grows to some 60 rows, then shrinks.
            let kept = if number < 250 { number / 4 } else { (500 - number) / 4 };
            while rows.len() as u32 > kept {
                rows.pop_front();
                buffer.pop();
            }
            assert_eq!(all(&buffer), rows.make_contiguous());
        }
        assert!(buffer.size() <= 2 * LEAST);
    }

    #[test]
    fn only_reached_rows_are_copied() {
        let mut buffer = Buffer::default();
        let reached = |buffer: &Buffer| {
            let mut found = Vec::new();
            buffer.copy_reached(&mut found);
            found
        };
        assert!(reached(&buffer).is_empty());
        (5..8).for_each(|number| buffer.push(number));
        buffer.reach();
        buffer.reach();
        assert_eq!(reached(&buffer), [5, 6]);
        buffer.pop();
        assert_eq!(reached(&buffer), [6]);
    }
}
