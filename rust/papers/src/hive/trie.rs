//! A trie over the mixed bits of keys. Many threads can look up and create values at the same time.
//!
//! ```text
//!  root   ┌──┬──┬──┬──┬ ... ┐        a slot is empty, a value with its key, or a node for the next four bits;
//!         └──┴│─┴──┴│─┴ ... ┘        it changes in this order, and never back
//!             ▼     ▼
//!           value  node
//! ```
//!
//! Nothing is removed until the whole trie is taken. Each step is therefore a single
//! compare-and-swap that needs no help from other threads (T1). Mixing is a permutation of the
//! keys, so two different keys diverge after at most eight nodes, and only whole keys are compared.
//! The paper uses Michael's hash table instead. That table has a fixed number of buckets, but the
//! number of keys in a winset is not known in advance. The trie comes from Bagwell, "Ideal hash
//! trees" (2001). The concurrent form follows Prokopec, Bronson, Bagwell and Odersky,
//! "Concurrent tries with efficient non-blocking snapshots" (2012), but does not support removals
//! or snapshots.

use std::fmt;
use std::ptr;

use tidegate_sync::atomic::{AtomicPtr, Ordering};

/// The number of key bits that a node distinguishes.
const BITS: u32 = if cfg!(any(loom, tidegate_stress)) { 1 } else { 4 };

/// The number of slots per node.
const SLOTS: usize = 1 << BITS;

/// A slot of a node. If the slot contains a node instead of an entry, the lowest bit of the pointer
/// is set.
type Slot<V> = AtomicPtr<SlotTarget<V>>;

/// The target of a slot.
#[repr(align(8))]
struct SlotTarget<V> {
    key: u32,
    value: V,
}

/// Slots for the next bits. The lowest bit is set in pointers to nodes, but not in pointers to
/// entries.
#[repr(align(8))]
struct Node<V>([Slot<V>; SLOTS]);

/// The values of keys.
pub(super) struct Trie<V> {
    root: Box<Node<V>>,
}

impl<V> Node<V> {
    fn new() -> Self {
        Node(std::array::from_fn(|_| Slot::new(ptr::null_mut())))
    }

    /// Returns the slot of a key, `depth` nodes below the root.
    #[inline]
    fn slot(&self, key: u32, depth: u32) -> &Slot<V> {
        debug_assert!(depth * BITS < u32::BITS, "two keys have diverged");
        &self.0[(mixed(key) >> (depth * BITS)) as usize % SLOTS]
    }
}

/// Returns a tagged pointer to a node. The pointer's lowest bit is set, unlike that of a pointer to
/// an entry.
fn tagged<V>(node: *mut Node<V>) -> *mut SlotTarget<V> {
    node.cast::<SlotTarget<V>>().map_addr(|address| address | 1)
}

/// Returns the node to which a pointer refers, or `None` if the pointer is not tagged.
fn node_of<V>(pointer: *mut SlotTarget<V>) -> Option<*mut Node<V>> {
    (pointer.addr() & 1 == 1).then(|| pointer.map_addr(|address| address & !1).cast())
}

/// Mixes the bits of a key. Each step is invertible, so different keys stay different.
fn mixed(key: u32) -> u32 {
    let key = (key ^ (key >> 16)).wrapping_mul(0x85eb_ca6b);
    let key = (key ^ (key >> 13)).wrapping_mul(0xc2b2_ae35);
    key ^ (key >> 16)
}

impl<V> Trie<V> {
    pub(super) fn new() -> Self {
        Trie { root: Box::new(Node::new()) }
    }

    /// Returns the value of `key`. If the key has no value, `new` creates one.
    #[inline]
    pub(super) fn get(&self, key: u32, new: impl Fn() -> V) -> &V {
        let (mut node, mut depth) = (&*self.root, 0);
        let mut made: Option<Box<SlotTarget<V>>> = None;
        loop {
            let slot = node.slot(key, depth);
            // Acquire: pairs with the Release of the thread that inserted the entry or node, so it
            // is seen completely initialized.
            let found = slot.load(Ordering::Acquire);
            if let Some(next) = node_of(found) {
                // SAFETY: a node that a slot leads to exists until the trie is dropped (T1), which
                // `&self` rules out.
                node = unsafe { &*next };
                depth += 1;
            } else if found.is_null() {
                let entry = Box::into_raw(
                    made.take().unwrap_or_else(|| Box::new(SlotTarget { key, value: new() })),
                );
                // Release: publishes the entry. Relaxed on failure: the slot is read again before
                // it is followed.
                match slot.compare_exchange(found, entry, Ordering::Release, Ordering::Relaxed) {
                    // SAFETY: as for nodes.
                    Ok(_) => return unsafe { &(*entry).value },
                    // SAFETY: the pointer was not inserted, so it still belongs to this thread,
                    // which boxed it above.
                    Err(_) => made = Some(unsafe { Box::from_raw(entry) }),
                }
            } else {
                // SAFETY: as for nodes.
                let entry = unsafe { &*found };
                if entry.key == key {
                    return &entry.value;
                }
                part(slot, found, entry.key, depth);
            }
        }
    }

    /// Removes and returns all keys and values.
    pub(super) fn take_entries(&mut self) -> Vec<(u32, V)> {
        let mut entries = Vec::new();
        let mut nodes = Vec::new();
        let mut take = |node: &mut Node<V>, nodes: &mut Vec<Box<Node<V>>>| {
            for slot in &mut node.0 {
                // Relaxed: the trie is held exclusively.
                let found = slot.swap(ptr::null_mut(), Ordering::Relaxed);
                if let Some(next) = node_of(found) {
                    // SAFETY: `part` boxed the node, and only this slot led to it, which it no
                    // longer does.
                    nodes.push(unsafe { Box::from_raw(next) });
                } else if !found.is_null() {
                    // SAFETY: as above, but `get` boxed the entry.
                    let entry = unsafe { Box::from_raw(found) };
                    entries.push((entry.key, entry.value));
                }
            }
        };
        take(&mut self.root, &mut nodes);
        while let Some(mut node) = nodes.pop() {
            take(&mut node, &mut nodes);
        }
        entries
    }
}

/// Replaces an entry with a node that contains the entry. If another thread was faster, the slot
/// already contains such a node.
fn part<V>(slot: &Slot<V>, found: *mut SlotTarget<V>, key: u32, depth: u32) {
    let node = Box::new(Node::new());
    // Relaxed: published by the Release below.
    node.slot(key, depth + 1).store(found, Ordering::Relaxed);
    let node = Box::into_raw(node);
    // Release: publishes the node, and the entry once more. Relaxed on failure: the slot is read
    // again.
    if slot.compare_exchange(found, tagged(node), Ordering::Release, Ordering::Relaxed).is_err() {
        // SAFETY: the node was not inserted, so it still belongs to this thread. Its slots are
        // pointers, which own nothing.
        drop(unsafe { Box::from_raw(node) });
    }
}

impl<V> Drop for Trie<V> {
    fn drop(&mut self) {
        drop(self.take_entries());
    }
}

impl<V> fmt::Debug for Trie<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trie").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_value() {
        let mut trie = Trie::new();
        let keys = || (0..5000_u32).map(|n| n.wrapping_mul(0x9e37_79b9)).chain([u32::MAX]);
        for key in keys().chain(keys()) {
            assert_eq!(*trie.get(key, || key), key);
        }
        let mut found = trie.take_entries();
        found.sort_unstable();
        let mut wanted: Vec<_> = keys().map(|key| (key, key)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(found, wanted);
        assert!(trie.take_entries().is_empty());
    }

    #[test]
    fn mixing_keeps_keys_apart() {
        // Inverts the steps, from the last to the first.
        let inverse = |factor: u32| {
            (0..5).fold(factor, |x, _| x.wrapping_mul(2_u32.wrapping_sub(factor.wrapping_mul(x))))
        };
        for key in (0..1_000_000).map(|n: u32| n.wrapping_mul(0x0100_0193)) {
            let mut back = mixed(key);
            back ^= back >> 16;
            back = back.wrapping_mul(inverse(0xc2b2_ae35));
            back ^= (back >> 13) ^ (back >> 26);
            back = back.wrapping_mul(inverse(0x85eb_ca6b));
            back ^= back >> 16;
            assert_eq!(back, key);
        }
    }
}
