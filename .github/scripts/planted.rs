//! Faults that the checks of `stress_module.sh` must find, built as the module is built.

/// Reads the byte after a block of memory.
#[unsafe(no_mangle)]
pub extern "C" fn read_past_the_end(bytes: usize) -> u8 {
    let block = vec![1_u8; bytes];
    // SAFETY: none; the byte is not the block's.
    unsafe { block.as_ptr().add(bytes).read_volatile() }
}

/// Reads a block of memory that was given back.
#[unsafe(no_mangle)]
pub extern "C" fn read_after_free(bytes: usize) -> u8 {
    let block = vec![1_u8; bytes];
    let start = block.as_ptr();
    drop(block);
    // SAFETY: none; the block is gone.
    unsafe { start.read_volatile() }
}

/// Asks for an element that a slice does not have.
#[unsafe(no_mangle)]
pub extern "C" fn unchecked_index(elements: usize) -> u8 {
    let elements = vec![1_u8; elements];
    // SAFETY: none; there are fewer elements.
    unsafe { *elements.get_unchecked(std::hint::black_box(elements.len())) }
}

/// Adds one to the largest number.
#[unsafe(no_mangle)]
pub extern "C" fn overflow(number: usize) -> u8 {
    (std::hint::black_box(usize::MAX) + number).to_le_bytes()[0]
}

/// No fault: the others must not be found by chance.
#[unsafe(no_mangle)]
pub extern "C" fn nothing(bytes: usize) -> u8 {
    vec![1_u8; bytes].into_iter().fold(0, u8::wrapping_add)
}
