//! A bounded queue from one thread to another: Lamport's ring.
//!
//! The sender writes the slots and the receiver empties them, in order. Each end of the ring has
//! its own count, to which only that end writes. Each end also remembers the value that it last
//! read from the other end's count. An end reads the other end's count again only if the ring seems
//! to be full or empty.

use std::fmt;
use std::mem::MaybeUninit;

use crate::CachePadded;
use crate::atomic::{Arc, AtomicUsize, Ordering, RaceCell};

struct Ring<T> {
    /// The values numbered `received..sent`. Value `n` is in slot `n % slots.len()`.
    slots: Box<[RaceCell<MaybeUninit<T>>]>,
    /// The number of values sent so far. Written by the sender.
    sent: CachePadded<AtomicUsize>,
    /// The number of values received so far. Written by the receiver.
    received: CachePadded<AtomicUsize>,
}

// SAFETY: the ring moves values from the sender's thread to the receiver's and shares none.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, number: usize) -> &RaceCell<MaybeUninit<T>> {
        // The number of slots is a power of two, so that they stay in order when the count wraps
        // around.
        &self.slots[number & (self.slots.len() - 1)]
    }

    /// Removes the value from a slot.
    ///
    /// # Safety
    ///
    /// The value with this number must have been sent and not yet received, and the caller must be
    /// the only receiver.
    unsafe fn take(&self, number: usize) -> T {
        // SAFETY: the caller guarantees that the slot has been written, and that nothing else reads
        // or overwrites it.
        self.slot(number).with_mut(|slot| unsafe { (*slot).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Relaxed: both ends are gone, and what they did happened before.
        let (mut received, sent) =
            (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed));
        while received != sent {
            // SAFETY: the value has been sent and not received, and nothing else has access to the
            // ring any more.
            drop(unsafe { self.take(received) });
            received = received.wrapping_add(1);
        }
    }
}

/// The end of a [`ring`] that sends values.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    sent: usize,
    /// The number of values received, as of the last read. If the count is stale, the ring looks
    /// fuller than it is.
    received: usize,
}

/// The receiving end of a [`ring`]. Values are received in the order in which they were sent.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    received: usize,
    /// The number of values sent, as of the last read. If the count is stale, the ring looks
    /// emptier than it is.
    sent: usize,
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("received", &self.received).finish_non_exhaustive()
    }
}

/// Creates the two ends of a queue with room for at least `least` values.
pub fn ring<T>(least: usize) -> (Sender<T>, Receiver<T>) {
    let slots =
        (0..least.next_power_of_two()).map(|_| RaceCell::new(MaybeUninit::uninit())).collect();
    let count = || CachePadded::new(AtomicUsize::new(0));
    let ring = Arc::new(Ring { slots, sent: count(), received: count() });
    (Sender { ring: ring.clone(), sent: 0, received: 0 }, Receiver { ring, received: 0, sent: 0 })
}

impl<T> Sender<T> {
    /// Sends `value`, or returns it if the ring is full.
    pub fn send(&mut self, value: T) -> Result<(), T> {
        let ring = &*self.ring;
        if self.sent.wrapping_sub(self.received) == ring.slots.len() {
            // Acquire: pairs with the Release of `receive`, so the slot was read before it is
            // overwritten.
            self.received = ring.received.load(Ordering::Acquire);
            if self.sent.wrapping_sub(self.received) == ring.slots.len() {
                return Err(value);
            }
        }
        debug_assert!(self.sent.wrapping_sub(self.received) < ring.slots.len());
        // SAFETY: the slot's previous value has been received, and the receiver does not read the
        // slot until the count below includes it.
        ring.slot(self.sent).with_mut(|slot| unsafe { (*slot).write(value) });
        self.sent = self.sent.wrapping_add(1);
        // Release: publishes the slot to the Acquire of `receive`.
        ring.sent.store(self.sent, Ordering::Release);
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Receives the next value, if there is one.
    pub fn receive(&mut self) -> Option<T> {
        let ring = &*self.ring;
        if self.received == self.sent {
            // Acquire: pairs with the Release of `send`, so the written slot is visible.
            self.sent = ring.sent.load(Ordering::Acquire);
            if self.received == self.sent {
                return None;
            }
        }
        debug_assert!(self.sent.wrapping_sub(self.received) <= ring.slots.len());
        // SAFETY: the value has been sent and not received yet, and there is only one receiver,
        // which is borrowed exclusively.
        let value = unsafe { ring.take(self.received) };
        self.received = self.received.wrapping_add(1);
        // Release: the slot has been read before the Acquire of `send` finds it free.
        ring.received.store(self.received, Ordering::Release);
        Some(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_once_and_in_order() {
        let (mut sender, mut receiver) = ring(4);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..100_000 {
                    while sender.send(value).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            for expected in 0..100_000 {
                let value = loop {
                    match receiver.receive() {
                        Some(value) => break value,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(value, expected);
            }
        });
        assert_eq!(receiver.receive(), None);
    }

    #[test]
    fn a_full_ring_gives_the_value_back_and_drops_what_is_left() {
        let alive = Arc::new(());
        let (mut sender, mut receiver) = ring(2);
        assert!(sender.send(alive.clone()).is_ok());
        assert!(sender.send(alive.clone()).is_ok());
        assert!(sender.send(alive.clone()).is_err());
        drop(receiver.receive());
        assert!(sender.send(alive.clone()).is_ok());
        assert_eq!(Arc::strong_count(&alive), 3);
        drop((sender, receiver));
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
