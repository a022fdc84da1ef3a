//! Checks the number of an array's buffers, and that each required buffer is present and long
//! enough.

use std::ffi::c_void;

use arrow_array::ffi::FFI_ArrowArray;
use arrow_schema::{DataType, UnionMode};

use super::{ArrayCopy, NOTHING};
use crate::error::{Error, Result};
use crate::node::Node;

/// The number of bytes in a view.
const VIEW_BYTES: i64 = 16;

/// The buffers of a type, apart from the validity buffer.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// No buffers, not even a validity buffer.
    Nothing,
    /// Only the validity buffer.
    Nulls,
    /// Values with this width in bits.
    Values(i64),
    /// Offsets into a child, with this width in bytes.
    Offsets(i64),
    /// Offsets with this width in bytes, followed by a buffer of bytes.
    Bytes(i64),
    /// Views, the data buffers to which they refer, and the lengths of these buffers.
    Views,
    /// Offsets and lengths, each of this width in bytes.
    ListViews(i64),
    /// Type IDs. There is no validity buffer; dense unions also have offsets.
    Union(UnionMode),
}

impl Layout {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null | DataType::RunEndEncoded(..) => Layout::Nothing,
            DataType::Boolean => Layout::Values(1),
            DataType::FixedSizeBinary(bytes) => Layout::Values(8 * i64::from(*bytes)),
            DataType::Utf8 | DataType::Binary => Layout::Bytes(4),
            DataType::LargeUtf8 | DataType::LargeBinary => Layout::Bytes(8),
            DataType::Utf8View | DataType::BinaryView => Layout::Views,
            DataType::List(_) | DataType::Map(..) => Layout::Offsets(4),
            DataType::LargeList(_) => Layout::Offsets(8),
            DataType::ListView(_) => Layout::ListViews(4),
            DataType::LargeListView(_) => Layout::ListViews(8),
            DataType::FixedSizeList(..) | DataType::Struct(_) => Layout::Nulls,
            DataType::Union(_, mode) => Layout::Union(*mode),
            DataType::Dictionary(codes, _) => Layout::of(codes),
            plain => Layout::Values(8 * plain.primitive_width().map_or(0, |bytes| bytes as i64)),
        }
    }

    /// Returns the number of buffers, or the minimum number for views.
    fn count(self) -> i64 {
        match self {
            Layout::Nothing => 0,
            Layout::Nulls | Layout::Union(UnionMode::Sparse) => 1,
            Layout::Values(_) | Layout::Offsets(_) | Layout::Union(UnionMode::Dense) => 2,
            Layout::Bytes(_) | Layout::Views | Layout::ListViews(_) => 3,
        }
    }
}

/// The exported buffer pointers of an array.
struct BufferPointers<'a> {
    pointers: Vec<*const c_void>,
    node: &'a Node<'a>,
}

impl BufferPointers<'_> {
    /// Returns the buffer at index `at`, with `elements` elements of `bits` bits each. The buffer
    /// can be missing if there are no elements.
    fn buffer(&self, at: usize, elements: i64, bits: i64) -> Result<*const c_void> {
        let bytes = elements.checked_mul(bits).map(|bits| (bits as usize).div_ceil(8));
        let pointer = self.pointers[at];
        match bytes {
            Some(0) => Ok(pointer),
            Some(bytes) if (pointer as usize).checked_add(bytes).is_none() => {
                self.too_long(at, elements, bits)
            }
            Some(_) if pointer.is_null() => Err(Error::at(
                self.node,
                format!("buffer {at} is a null pointer, but must hold {elements} elements"),
            )),
            Some(_) => Ok(pointer),
            None => self.too_long(at, elements, bits),
        }
    }

    #[cold]
    fn too_long<T>(&self, at: usize, elements: i64, bits: i64) -> Result<T> {
        Err(Error::at(
            self.node,
            format!(
                "buffer {at} has {elements} elements of {bits} bits, too many to fit in memory"
            ),
        ))
    }
}

impl ArrayCopy {
    /// Adds the buffers of `array` to `copy`, whose length and offset must already be set. Returns
    /// the last offset of a list.
    ///
    /// # Safety
    ///
    /// The array must meet the requirements of [`import`](super::import).
    pub(super) unsafe fn copy_buffers(
        &mut self,
        array: &FFI_ArrowArray,
        copy: &mut FFI_ArrowArray,
        data_type: &DataType,
        node: &Node<'_>,
    ) -> Result<Option<i64>> {
        let layout = Layout::of(data_type);
        // SAFETY: the caller upholds the contract of this function.
        let given = unsafe { pointers(array, layout, data_type, node)? };
        let end = copy.length + copy.offset;
        let mut items = None;
        let has_nulls = !matches!(layout, Layout::Nothing | Layout::Union(_));
        let nulls = if has_nulls { given.pointers[0] } else { NOTHING };
        if has_nulls && nulls.is_null() && array.null_count > 0 {
            return Err(Error::at(
                node,
                format!(
                    "null_count is {}, but no buffer specifies which values are null",
                    array.null_count
                ),
            ));
        }
        let pointers = match layout {
            Layout::Nothing => Vec::new(),
            Layout::Nulls => vec![given.nulls(end)?],
            Layout::Values(bits) => vec![given.nulls(end)?, given.buffer(1, end, bits)?],
            Layout::Union(mode) => {
                let ids = given.buffer(0, end, 8)?;
                match mode {
                    UnionMode::Sparse => vec![ids],
                    UnionMode::Dense => vec![ids, given.buffer(1, end, 32)?],
                }
            }
            Layout::ListViews(width) => {
                vec![
                    given.nulls(end)?,
                    given.buffer(1, end, 8 * width)?,
                    given.buffer(2, end, 8 * width)?,
                ]
            }
            Layout::Offsets(width) => {
                // SAFETY: if the offsets of a list are present, there is one more of them than
                // there are elements.
                let (offsets, last) = unsafe { self.offsets(&given, copy, width)? };
                items = Some(last);
                vec![given.nulls(end)?, offsets]
            }
            Layout::Bytes(width) => {
                // SAFETY: as above, there is one more offset than there are elements.
                let (offsets, last) = unsafe { self.offsets(&given, copy, width)? };
                vec![given.nulls(end)?, offsets, given.buffer(2, last, 8)?]
            }
            // SAFETY: the caller upholds the contract of this function.
            Layout::Views => unsafe { self.views(&given, end)? },
        };
        copy.n_buffers = pointers.len() as i64;
        self.buffers.push(pointers.into());
        copy.buffers = self.buffers.last_mut().expect("one was added").as_mut_ptr();
        Ok(items)
    }

    /// Returns the aligned offsets and the last offset. An array without elements can omit the
    /// offsets.
    ///
    /// # Safety
    ///
    /// Buffer 1 must be null, or contain one more offset than there are elements, each `width`
    /// bytes wide.
    unsafe fn offsets(
        &mut self,
        given: &BufferPointers<'_>,
        copy: &FFI_ArrowArray,
        width: i64,
    ) -> Result<(*const c_void, i64)> {
        if copy.length == 0 {
            return Ok((self.keep_words(vec![0]), 0));
        }
        let end = (copy.length + copy.offset) as usize;
        let pointer = given.buffer(1, end as i64 + 1, 8 * width)?;
        // SAFETY: both positions are in the buffer.
        let (first, last) = unsafe {
            let offset = |at: usize| match width {
                4 => i64::from(pointer.cast::<i32>().add(at).read_unaligned()),
                _ => pointer.cast::<i64>().add(at).read_unaligned(),
            };
            (offset(copy.offset as usize), offset(end))
        };
        if first < 0 || last < first {
            let what = format!(
                "the first offset is {first} and the last is {last}; offsets must rise from 0 or \
                 more"
            );
            return Err(Error::at(given.node, what));
        }
        if (pointer as usize).is_multiple_of(width as usize) {
            return Ok((pointer, last));
        }
        let bytes = (end + 1) * width as usize;
        let mut words = vec![0_i64; bytes.div_ceil(size_of::<i64>())];
        // SAFETY: the buffer has this many bytes, and the words have room for them.
        unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(pointer.cast(), bytes) };
        Ok((self.keep_words(words), last))
    }

    /// Returns the buffers of a view array: validity, views, data, and the lengths of the data
    /// buffers.
    ///
    /// # Safety
    ///
    /// The buffers must belong to a view array that ends at `end`.
    unsafe fn views(&mut self, given: &BufferPointers<'_>, end: i64) -> Result<Vec<*const c_void>> {
        let last = given.pointers.len() - 1;
        let mut pointers = vec![given.nulls(end)?, given.buffer(1, end, 8 * VIEW_BYTES)?];
        let count = last - pointers.len();
        let lengths = given.buffer(last, count as i64, 64)?.cast::<i64>();
        let mut words = Vec::with_capacity(count);
        for at in 0..count {
            // SAFETY: there is one length for each of the data buffers.
            let length = unsafe { lengths.add(at).read_unaligned() };
            if length < 0 {
                return Err(Error::at(
                    given.node,
                    format!("buffer {} has a length of {length}", at + 2),
                ));
            }
            pointers.push(given.buffer(at + 2, length, 8)?);
            words.push(length);
        }
        pointers.push(self.keep_words(words));
        Ok(pointers)
    }

    fn keep_words(&mut self, words: Vec<i64>) -> *const c_void {
        self.memory.push(words.into());
        self.memory.last().expect("one was added").as_ptr().cast()
    }
}

impl BufferPointers<'_> {
    /// Returns the validity buffer, which can be missing.
    fn nulls(&self, end: i64) -> Result<*const c_void> {
        if self.pointers[0].is_null() { Ok(NOTHING) } else { self.buffer(0, end, 1) }
    }
}

/// # Safety
///
/// The array must meet the requirements of [`import`](super::import).
unsafe fn pointers<'a>(
    array: &FFI_ArrowArray,
    layout: Layout,
    data_type: &DataType,
    node: &'a Node<'a>,
) -> Result<BufferPointers<'a>> {
    let (given, expected) = (array.n_buffers, layout.count());
    let fits = match layout {
        // A column of type null can have a validity buffer, as in early versions of Arrow. This
        // buffer is never read.
        Layout::Nothing if *data_type == DataType::Null => (0..=1).contains(&given),
        Layout::Views => (expected..=i64::from(i32::MAX)).contains(&given),
        _ => given == expected,
    };
    if !fits {
        let what = format!("has {expected} buffers, n_buffers is {given}");
        return Err(Error::of_type(node, data_type, &what));
    }
    if matches!(layout, Layout::Nothing) {
        return Ok(BufferPointers { pointers: Vec::new(), node });
    }
    if array.buffers.is_null() {
        return Err(Error::at(node, "the list of buffers is a null pointer"));
    }
    // SAFETY: the list has as many pointers as the structure states.
    let pointers =
        (0..given as usize).map(|at| unsafe { array.buffers.add(at).read_unaligned() }).collect();
    Ok(BufferPointers { pointers, node })
}
