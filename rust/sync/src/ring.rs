//! A bounded queue from one thread to another: Lamport's ring.
//!
//! The sender writes slots and the receiver empties them, in turn; each end has a count that only
//! it writes. An end remembers what it last saw of the other's count, so that it looks at a cache
//! line that the other writes only when it would otherwise find the ring full, or empty.

use std::fmt;
use std::mem::MaybeUninit;

use crate::CachePadded;
use crate::atomic::{Arc, AtomicUsize, Ordering, RaceCell};

struct Ring<T> {
    /// The values numbered `received..sent`, each in the slot of its number, modulo their count.
    slots: Box<[RaceCell<MaybeUninit<T>>]>,
    /// Values sent so far. Written by the sender.
    sent: CachePadded<AtomicUsize>,
    /// Values received so far. Written by the receiver.
    received: CachePadded<AtomicUsize>,
}

// SAFETY: the ring moves values from the sender's thread to the receiver's and shares none.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, number: usize) -> &RaceCell<MaybeUninit<T>> {
        // A power of two, so that the slots stay in turn when the count wraps.
        &self.slots[number & (self.slots.len() - 1)]
    }

    /// Takes the value out of a slot.
    ///
    /// # Safety
    ///
    /// The value of this number was sent, is not received yet, and the caller is the only one to
    /// receive.
    unsafe fn take(&self, number: usize) -> T {
        // SAFETY: as the caller says, the slot is written, and nobody else reads it or writes it
        // anew.
        self.slot(number).with_mut(|slot| unsafe { (*slot).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Relaxed: both ends are gone, and what they did happened before.
        let (mut received, sent) =
            (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed));
        while received != sent {
            // SAFETY: the value was sent and not received, and nobody else has the ring any more.
            drop(unsafe { self.take(received) });
            received = received.wrapping_add(1);
        }
    }
}

/// The end of a [`ring`] that values go into.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    sent: usize,
    /// What was last seen of the values received: a stale count makes the ring look fuller than it
    /// is.
    received: usize,
}

/// The end of a [`ring`] that values come out of, in the order in which they were sent.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    received: usize,
    /// What was last seen of the values sent: a stale count makes the ring look emptier than it is.
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

/// The two ends of a queue for at least `least` values.
pub fn ring<T>(least: usize) -> (Sender<T>, Receiver<T>) {
    let slots =
        (0..least.next_power_of_two()).map(|_| RaceCell::new(MaybeUninit::uninit())).collect();
    let count = || CachePadded::new(AtomicUsize::new(0));
    let ring = Arc::new(Ring { slots, sent: count(), received: count() });
    (Sender { ring: ring.clone(), sent: 0, received: 0 }, Receiver { ring, received: 0, sent: 0 })
}

impl<T> Sender<T> {
    /// Sends `value`, or gives it back if the ring is full.
    pub fn send(&mut self, value: T) -> Result<(), T> {
        let ring = &*self.ring;
        if self.sent.wrapping_sub(self.received) == ring.slots.len() {
            // Acquire: pairs with the Release of `receive`, so the slot was read before it is
            // written anew.
            self.received = ring.received.load(Ordering::Acquire);
            if self.sent.wrapping_sub(self.received) == ring.slots.len() {
                return Err(value);
            }
        }
        debug_assert!(self.sent.wrapping_sub(self.received) < ring.slots.len());
        // SAFETY: the slot's former value was received, and the receiver does not look at it before
        // the count below says that it was sent.
        ring.slot(self.sent).with_mut(|slot| unsafe { (*slot).write(value) });
        self.sent = self.sent.wrapping_add(1);
        // Release: publishes the slot to the Acquire of `receive`.
        ring.sent.store(self.sent, Ordering::Release);
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// The next value, if one is there.
    pub fn receive(&mut self) -> Option<T> {
        let ring = &*self.ring;
        if self.received == self.sent {
            // Acquire: pairs with the Release of `send`, so the slot is seen written.
            self.sent = ring.sent.load(Ordering::Acquire);
            if self.received == self.sent {
                return None;
            }
        }
        debug_assert!(self.sent.wrapping_sub(self.received) <= ring.slots.len());
        // SAFETY: the value was sent and not received yet, and there is one receiver, borrowed
        // exclusively.
        let value = unsafe { ring.take(self.received) };
        self.received = self.received.wrapping_add(1);
        // Release: the slot was read before the Acquire of `send` finds it free.
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
