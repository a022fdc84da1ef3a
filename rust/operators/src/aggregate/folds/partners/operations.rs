//! Loops that are compiled for each group of operations on words.

use super::words::Operation;

/// The maximum number of words that a loop folds. More words would not stay in registers.
pub(super) const MOST_WORDS: usize = 3;

/// Evaluates an expression with a constant that contains the given operations, which must be in
/// ascending order.
macro_rules! for_operations {
    ($operations:expr, $constant:ident => $work:expr) => {
        for_operations! {
            @ $operations, $constant => $work;
            [Add] [AddFloats] [Greatest]
            [Add, Add] [Add, AddFloats] [Add, Greatest]
            [AddFloats, AddFloats] [AddFloats, Greatest] [Greatest, Greatest]
            [Add, Add, Add] [Add, Add, AddFloats] [Add, Add, Greatest]
            [Add, AddFloats, AddFloats] [Add, AddFloats, Greatest] [Add, Greatest, Greatest]
            [AddFloats, AddFloats, AddFloats] [AddFloats, AddFloats, Greatest]
            [AddFloats, Greatest, Greatest] [Greatest, Greatest, Greatest]
        }
    };
    (@ $operations:expr, $constant:ident => $work:expr; $([$($operation:ident),*])*) => {
        match &$operations[..] {
            $([$(Operation::$operation),*] => {
                const $constant: &[Operation] = &[$(Operation::$operation),*];
                $work
            })*
            _ => unreachable!("there are 1 to MOST_WORDS operations, in order"),
        }
    };
}

pub(super) use for_operations;

/// Encodes operations as a number that the compiler can use as a constant.
pub(super) const fn code(operations: &[Operation]) -> u8 {
    let (mut code, mut at) = (0, 0);
    while at < operations.len() {
        code |= (operations[at] as u8) << (2 * at);
        at += 1;
    }
    code
}

/// Returns the operation of a word.
#[inline(always)]
pub(super) const fn operation<const OPERATIONS: u8>(word: usize) -> Operation {
    const ALL: [Operation; 3] = [Operation::Add, Operation::AddFloats, Operation::Greatest];
    ALL[(OPERATIONS >> (2 * word) & 3) as usize]
}
