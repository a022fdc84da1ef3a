//! Arrow's C structures, with numbers and pointers that are wrong in every way that can be
//! detected.
//!
//! A non-null pointer points to separate memory. A consumer has to trust some of the interface's
//! offsets and lengths, so these stay within that memory. Everything else is drawn.

#![allow(unsafe_code, reason = "the C interface is what is attacked")]

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_schema::ffi::Flags;
use tidegate::{Driver, Stop, Table};
use tidegate_import::UnreadBatch;

use crate::draw::Draw;

/// The bytes in a buffer: more than any drawn array reads.
const BYTES: usize = 1 << 12;

/// The largest offset.
const ITEMS: u32 = 40;

const FORMATS: [&str; 34] = [
    "l",
    "u",
    "+l",
    "+s",
    "vu",
    "i",
    "c",
    "S",
    "g",
    "f",
    "b",
    "n",
    "U",
    "z",
    "Z",
    "vz",
    "tdD",
    "tdm",
    "tsu:",
    "tsn:UTC",
    "ttm",
    "tDs",
    "d:9,2",
    "d:50,4,256",
    "w:3",
    "+w:2",
    "+L",
    "+vl",
    "+r",
    "+m",
    "+us:0,1",
    "w:-1",
    "d:x",
    "?",
];

/// The memory that the structures point to, which lives until they are dropped.
#[derive(Default)]
struct Memory {
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    arrays: Vec<Box<FFI_ArrowArray>>,
    children: Vec<Box<[*mut FFI_ArrowArray]>>,
    buffers: Vec<Box<[*const c_void]>>,
    bytes: Vec<Box<[u64]>>,
}

/// A drawn column: its schema and its array.
type Node = (FFI_ArrowSchema, FFI_ArrowArray);

/// Draws a batch and imports it. The import must fail, or every value must be readable.
pub(crate) fn import(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let mut memory = Memory::default();
    let Some((schema, mut array)) = node(&mut draw, &mut memory, "+s", 3) else { return };
    // SAFETY: arrow-rs made the schema. The array's pointers are null or point to `memory`, which
    // is as large as the interface requires. Lengths and offsets beyond it are larger than any
    // memory.
    let taken = unsafe { UnreadBatch::take(NonNull::from(&schema), NonNull::from(&mut array)) };
    if let Ok(batch) = taken.and_then(UnreadBatch::read) {
        let driver = Driver::new(1, Stop::default());
        if let Ok(table) = Table::new("left", batch.schema(), vec![batch], &driver) {
            // Each value of an accepted batch is read.
            assert!(!format!("{:?}", table.batches()).is_empty());
        }
    }
}

/// Draws a column of a format, or returns `None` if arrow-rs cannot create its schema.
fn node(draw: &mut Draw<'_>, memory: &mut Memory, format: &str, depth: u32) -> Option<Node> {
    let (length, offset) = (draw.number(0, 8) as i64, draw.pick(&[0, 0, 0, 1, 7]));
    let count = match format {
        "+s" => draw.number(0, 3),
        "+r" | "+us:0,1" => 2,
        "+l" | "+L" | "+vl" | "+w:2" | "+m" => 1,
        _ => 0,
    };
    let (mut schemas, mut children) = (Vec::new(), Vec::new());
    for at in 0..count {
        let format = match (format, at) {
            ("+r", 0) => "i",
            ("+m", _) => "+s",
            _ if depth == 0 => "l",
            _ => draw.pick(&FORMATS),
        };
        let (schema, child) = node(draw, memory, format, depth.saturating_sub(1))?;
        schemas.push(schema.with_name(["a", "b", "c"][at as usize]).ok()?);
        memory.arrays.push(Box::new(child));
        let child: *mut FFI_ArrowArray =
            &raw mut **memory.arrays.last_mut().expect("one was added");
        children.push(if draw.once_in(40) { null_mut() } else { child });
    }
    let dictionary = if matches!(format, "c" | "i") && draw.once_in(3) {
        node(draw, memory, "u", 0)
    } else {
        None
    };
    let (of_dictionary, dictionary) = dictionary.unzip();
    let dictionary = dictionary.map_or(null_mut(), |array| {
        memory.arrays.push(Box::new(array));
        &raw mut **memory.arrays.last_mut().expect("one was added")
    });
    let schema = FFI_ArrowSchema::try_new(format, schemas, of_dictionary).ok()?;
    let buffers = buffers(draw, memory, format);
    let mut array = FFI_ArrowArray {
        length,
        null_count: draw.pick(&[-1, 0, 0, 1, length, i64::MIN, i64::MAX]),
        offset,
        n_buffers: buffers.len() as i64,
        n_children: children.len() as i64,
        buffers: null_mut(),
        children: null_mut(),
        dictionary: if draw.once_in(40) { null_mut() } else { dictionary },
        release: Some(release),
        private_data: null_mut(),
    };
    memory.buffers.push(buffers.into());
    array.buffers = memory.buffers.last_mut().expect("one was added").as_mut_ptr();
    memory.children.push(children.into());
    array.children = memory.children.last_mut().expect("one was added").as_mut_ptr();
    spoil(draw, &mut array);
    let schema =
        schema.with_flags(if draw.flip() { Flags::NULLABLE } else { Flags::empty() }).ok()?;
    Some((schema, array))
}

/// Sometimes sets numbers that no array can have.
fn spoil(draw: &mut Draw<'_>, array: &mut FFI_ArrowArray) {
    let none = draw.pick(&[-1, i64::MIN, i64::MAX, (1 << 61), (1 << 40) + 1]);
    match draw.number(0, 60) {
        0 => array.length = none,
        1 => array.offset = none,
        2 => array.n_buffers = draw.pick(&[-1, i64::MIN, 0, array.n_buffers - 1]),
        3 => array.n_children = draw.pick(&[-1, i64::MIN, 0, array.n_children - 1]),
        4 => array.buffers = null_mut(),
        5 => array.children = null_mut(),
        6 => array.release = None,
        7 => (array.length, array.offset) = (i64::MAX, i64::MAX),
        _ => {}
    }
}

/// Draws the buffers of a format, some of which may be missing.
fn buffers(draw: &mut Draw<'_>, memory: &mut Memory, format: &str) -> Vec<*const c_void> {
    let contents: &[Content] = match format {
        "n" | "+r" => &[],
        "+s" | "+w:2" => &[Content::Any],
        "+us:0,1" => &[Content::Ids],
        "+l" | "+m" => &[Content::Any, Content::Offsets(4)],
        "+L" => &[Content::Any, Content::Offsets(8)],
        "+vl" => &[Content::Any, Content::Offsets(4), Content::Offsets(4)],
        "u" | "z" => &[Content::Any, Content::Offsets(4), Content::Text],
        "U" | "Z" => &[Content::Any, Content::Offsets(8), Content::Text],
        "vu" | "vz" => {
            &[Content::Any, Content::Views, Content::Text, Content::Text, Content::Lengths]
        }
        _ => &[Content::Any, Content::Any],
    };
    contents
        .iter()
        .map(|content| if draw.once_in(12) { null() } else { content.fill(draw, memory) })
        .collect()
}

/// The contents of a buffer.
#[derive(Clone, Copy)]
enum Content {
    Any,
    Ids,
    Text,
    Offsets(usize),
    Views,
    /// The lengths of buffers: valid ones, or ones larger than any buffer.
    Lengths,
}

impl Content {
    fn fill(self, draw: &mut Draw<'_>, memory: &mut Memory) -> *const c_void {
        let mut bytes = vec![0_u8; BYTES];
        let mut offset = 0;
        for at in 0..ITEMS as usize {
            let little = match self {
                Content::Any => u64::from(draw.number(0, 255)).to_le_bytes(),
                Content::Ids => u64::from(draw.number(0, 2)).to_le_bytes(),
                Content::Text => {
                    u64::from(if draw.once_in(30) { 0xff } else { draw.number(32, 126) })
                        .to_le_bytes()
                }
                Content::Offsets(_) => {
                    offset = if draw.once_in(20) {
                        draw.number(0, ITEMS)
                    } else {
                        ITEMS.min(offset + draw.number(0, 3))
                    };
                    u64::from(offset).to_le_bytes()
                }
                Content::Views => u64::from(draw.number(0, 16)).to_le_bytes(),
                Content::Lengths => {
                    draw.pick(&[64, 0, BYTES as i64, -1, i64::MIN, i64::MAX]).to_le_bytes()
                }
            };
            let width = match self {
                Content::Offsets(width) => width,
                Content::Views => 4,
                Content::Lengths => 8,
                Content::Any | Content::Ids | Content::Text => 1,
            };
            bytes[at * width..(at + 1) * width].copy_from_slice(&little[..width]);
        }
        let words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        memory.bytes.push(words.collect());
        memory.bytes.last().expect("one was added").as_ptr().cast()
    }
}

/// `Memory` frees everything that the structures point to.
unsafe extern "C" fn release(_: *mut FFI_ArrowArray) {}
