//! Streams of record batches.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::RecordBatch;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{DataType, SchemaRef};

use crate::array::import;
use crate::error::{Error, Result};
use crate::schema::schema;

/// A stream that has been taken over but not yet read.
#[derive(Debug)]
pub struct UnopenedStream(FFI_ArrowArrayStream);

impl UnopenedStream {
    /// Takes over the stream that `stream` points to. After the call, `stream` points to a released
    /// stream.
    ///
    /// # Safety
    ///
    /// `stream` must point to an initialised structure that nothing else uses during the call.
    /// Unless the stream has been released, its callbacks must behave as Arrow's C stream interface
    /// specifies. The callbacks can be called on any thread, one call at a time. In the structures
    /// that the callbacks fill, each pointer must be null or point to the data that Arrow's C data
    /// interface specifies.
    pub unsafe fn take(stream: NonNull<FFI_ArrowArrayStream>) -> Result<Self> {
        // SAFETY: the caller upholds the contract of this function.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
        if stream.release.is_none() {
            return Err(Error::Released);
        }
        if stream.get_schema.is_none() || stream.get_next.is_none() {
            return Err(Error::malformed(
                None,
                "the stream lacks a function that returns its schema, or one that returns a batch",
            ));
        }
        Ok(UnopenedStream(stream))
    }

    /// Requests the schema. The producer can take arbitrarily long to return the schema.
    pub fn open(mut self) -> Result<ArrowStream> {
        let get_schema = self.0.get_schema.expect("the callback exists");
        let mut given = FFI_ArrowSchema::empty();
        // SAFETY: the stream is open, so the callback can be called.
        let code = unsafe { get_schema(&raw mut self.0, &raw mut given) };
        if code != 0 {
            return Err(self.failure(code));
        }
        // SAFETY: the producer has filled the structure, or left it in its released state.
        let schema = match unsafe { schema(NonNull::from(&mut given)) } {
            Err(Error::Released) => {
                return Err(Error::malformed(None, "the stream returned no schema"));
            }
            schema => schema?,
        };
        let data_type = DataType::Struct(schema.fields().clone());
        Ok(ArrowStream { source: Some(self), schema, data_type })
    }

    /// Returns an error with the producer's description of its last failure.
    fn failure(&mut self, code: i32) -> Error {
        let text = self.0.get_last_error.and_then(|get_last_error| {
            // SAFETY: the stream is open, so the callback can be called.
            let text = unsafe { get_last_error(&raw mut self.0) };
            // SAFETY: the string is null-terminated and stays valid until the next call.
            (!text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        });
        Error::Producer { code, text }
    }
}

/// A sequence of record batches. Each batch is checked when it arrives.
#[derive(Debug)]
pub struct ArrowStream {
    /// `Some` until the end of the stream.
    source: Option<UnopenedStream>,
    schema: SchemaRef,
    data_type: DataType,
}

impl ArrowStream {
    /// Returns the schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the next batch, or `None` at the end or after a failure.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(source) = &mut self.source else { return Ok(None) };
        let read = ArrowStream::read(source, &self.schema, &self.data_type);
        if !matches!(read, Ok(Some(_))) {
            self.source = None;
        }
        read
    }

    fn read(
        source: &mut UnopenedStream,
        schema: &SchemaRef,
        data_type: &DataType,
    ) -> Result<Option<RecordBatch>> {
        let get_next = source.0.get_next.expect("the callback exists");
        let mut given = FFI_ArrowArray::empty();
        // SAFETY: the stream is open, so the callback can be called.
        let code = unsafe { get_next(&raw mut source.0, &raw mut given) };
        if code != 0 {
            return Err(source.failure(code));
        }
        if given.release.is_none() {
            return Ok(None);
        }
        // SAFETY: the producer has filled the structure.
        unsafe { import(given, schema, data_type) }.map(Some)
    }
}
