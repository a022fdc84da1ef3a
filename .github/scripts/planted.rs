//! Deliberate faults that the checks in `stress_module.sh` must detect.
//!
//! The faults are compiled with the same flags as the module.

/// Reads the byte after a block of memory.
#[unsafe(no_mangle)]
pub extern "C" fn read_past_the_end(bytes: usize) -> u8 {
    let block = vec![1_u8; bytes];
    // SAFETY: none; the byte is outside the block.
    unsafe { block.as_ptr().add(bytes).read_volatile() }
}

/// Reads a memory block after freeing it.
#[unsafe(no_mangle)]
pub extern "C" fn read_after_free(bytes: usize) -> u8 {
    let block = vec![1_u8; bytes];
    let start = block.as_ptr();
    drop(block);
    // SAFETY: none; the block was freed.
    unsafe { start.read_volatile() }
}

/// Reads an element past the end of a slice.
#[unsafe(no_mangle)]
pub extern "C" fn unchecked_index(elements: usize) -> u8 {
    let elements = vec![1_u8; elements];
    // SAFETY: none; the index is out of bounds.
    unsafe { *elements.get_unchecked(std::hint::black_box(elements.len())) }
}

/// Adds a number to the largest integer, which makes the sum overflow.
#[unsafe(no_mangle)]
pub extern "C" fn overflow(number: usize) -> u8 {
    (std::hint::black_box(usize::MAX) + number).to_le_bytes()[0]
}

/// Contains no fault. This function verifies that the checks do not flag correct code.
#[unsafe(no_mangle)]
pub extern "C" fn nothing(bytes: usize) -> u8 {
    vec![1_u8; bytes].into_iter().fold(0, u8::wrapping_add)
}
