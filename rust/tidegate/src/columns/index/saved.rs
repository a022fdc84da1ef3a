//! Indexes in files.
//!
//! ```text
//! magic │ rows │ messages │ times │ ends │ row numbers │ key starts │ keys │ trailer
//! ```
//!
//! The rows are the bodies of an Arrow IPC stream, and the messages describe them. The keys are an
//! IPC stream. Sections and bodies start at multiples of 64 bytes, so that values can be used where
//! they are mapped. The trailer is JSON with the position and checksums of each section. It is
//! followed by the length and checksum of the JSON, and the magic bytes.
//!
//! Opening a file reads and checks the trailer and the small sections. The Arrow library also checks
//! everything in the rows that memory safety depends on, such as offsets and text. Before the first
//! search, the checksums of the times, ends and row numbers are verified. The checksums of the rows
//! are verified only on request, because the whole file has to be read.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};
use bytes::Bytes;
use serde_json::{Value, json};
use tidegate_operators::driver::Driver;
use tidegate_operators::order::SideIndex;
use tidegate_operators::overlap::EndTree;
use tidegate_structures::memory::file_map::FileMap;
use tidegate_structures::memory::pages::Pages;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{IndexColumns, Part, TableIndex};
use crate::columns::keys::KeyLookup;
use crate::columns::table::Table;
use crate::columns::time;
use crate::{Error, Result};

const MAGIC: &[u8; 16] = b"tidegate index\r\n";

/// The format version, which is incremented when older versions of tidegate cannot read the new
/// format.
const VERSION: u64 = 1;

/// Sections start at multiples of this many bytes.
const ALIGNED: u64 = 64;

/// The number of rows per message. Arrow assembles a whole message in memory before it is written.
const MESSAGE_ROWS: usize = 1 << 22;

/// The number of bytes whose checksum a thread computes at a time.
const CHECKED_BYTES: usize = 1 << 24;

/// The size of a message's continuation mark and length field.
const MESSAGE_HEAD: usize = 2 * size_of::<u32>();

/// A continuation mark and a length of zero.
const END_OF_STREAM: [u8; MESSAGE_HEAD] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The length and checksum of the trailer, and the magic bytes.
const ENDING: usize = 2 * size_of::<u64>() + MAGIC.len();

/// A section's bytes, including the padding after it, with the checksum of each
/// [`CHECKED_BYTES`] bytes.
#[derive(Clone, Debug)]
struct Section {
    bytes: Range<usize>,
    padded: usize,
    checksums: Vec<u64>,
}

/// Sections of an index whose checksums are verified before they are used.
#[derive(Debug)]
pub(super) struct SectionCheck {
    name: String,
    file: FileMap,
    sections: Vec<Section>,
    is_intact: OnceLock<bool>,
}

impl SectionCheck {
    /// Verifies the checksums, unless this has already been done.
    pub(super) fn verify(&self, driver: &Driver) -> Result<()> {
        let is_intact = match self.is_intact.get() {
            Some(is_intact) => *is_intact,
            None => {
                let found = are_intact(&self.file, &self.sections, driver)?;
                *self.is_intact.get_or_init(|| found)
            }
        };
        if is_intact { Ok(()) } else { Err(damaged(&self.name, CHECKSUM)) }
    }
}

const CHECKSUM: &str = "a checksum does not match";

fn are_intact(file: &FileMap, sections: &[Section], driver: &Driver) -> Result<bool> {
    let mut pieces = Vec::new();
    for section in sections {
        let all = &file.as_ref()[section.bytes.start..section.padded];
        pieces.extend(all.chunks(CHECKED_BYTES).zip(section.checksums.iter().copied()));
    }
    let intact = driver.map(pieces, |(bytes, checksum)| xxh3_64(bytes) == checksum)?;
    Ok(intact.into_iter().all(|intact| intact))
}

fn damaged(name: &str, what: &str) -> Error {
    Error::state(format!("{name}: the index is damaged: {what}; save it again"))
}

/// Writes sections one after the other.
struct SectionWriter {
    file: BufWriter<File>,
    written: u64,
    start: u64,
    piece: Xxh3,
    checksums: Vec<u64>,
}

impl Write for SectionWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let in_piece = (self.written - self.start) as usize % CHECKED_BYTES;
        let taken = bytes.len().min(CHECKED_BYTES - in_piece);
        self.file.write_all(&bytes[..taken])?;
        self.piece.update(&bytes[..taken]);
        self.written += taken as u64;
        if in_piece + taken == CHECKED_BYTES {
            self.end_piece();
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SectionWriter {
    fn end_piece(&mut self) {
        self.checksums.push(self.piece.digest());
        self.piece.reset();
    }

    /// Writes zeros up to the next aligned position.
    fn pad(&mut self) -> io::Result<()> {
        let padding = self.written.next_multiple_of(ALIGNED) - self.written;
        self.write_all(&[0; ALIGNED as usize][..padding as usize])
    }

    /// Writes a section, and returns its entry in the trailer.
    fn section(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<Value> {
        self.start = self.written;
        write(self)?;
        let end = self.written;
        self.pad()?;
        if !(self.written - self.start).is_multiple_of(CHECKED_BYTES as u64) {
            self.end_piece();
        }
        let checksums = std::mem::take(&mut self.checksums);
        Ok(json!({"start": self.start, "end": end, "checksums": checksums}))
    }

    /// Writes a section of arrays, one after the other.
    fn arrays<'a, T: bytemuck::Pod>(
        &mut self,
        arrays: impl IntoIterator<Item = &'a [T]>,
    ) -> io::Result<Value> {
        self.section(|out| {
            arrays.into_iter().try_for_each(|array| out.write_all(bytemuck::cast_slice(array)))
        })
    }
}

impl Table {
    /// Writes the table and its index to a file, which can be opened with [`open_index`].
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn save_index(&self, path: &Path, driver: &Driver) -> Result<()> {
        let (columns, part) = self.in_one_part(driver)?;
        part.verify(driver)?;
        let keys = match &part.keys {
            Some(lookup) if lookup.span().is_none() => {
                Some(keys_of(self, lookup, &columns.by, driver)?)
            }
            _ => None,
        };
        File::create(path)
            .and_then(|file| self.write_index(file, (&columns, &part), keys.as_ref()))
            .map_err(|error| Error::data(format!("the index cannot be saved: {error}")))
    }

    fn write_index(
        &self,
        file: File,
        (columns, part): (&IndexColumns, &Part),
        keys: Option<&Table>,
    ) -> io::Result<()> {
        let rows = &part.rows;
        let mut writer = SectionWriter {
            file: BufWriter::with_capacity(1 << 20, file),
            written: 0,
            start: 0,
            piece: Xxh3::new(),
            checksums: Vec::new(),
        };
        let magic = writer.section(|out| out.write_all(MAGIC))?;
        let mut messages = Vec::new();
        let of_rows = writer.section(|out| {
            encoded(self, |message, body| {
                messages.extend(message);
                out.write_all(body)?;
                out.pad()
            })
        })?;
        let messages = writer.section(|out| out.write_all(&messages))?;
        let times = writer.arrays([rows.times()])?;
        let levels = part.ends.as_ref().map(|tree| tree.levels());
        let ends = levels.map(|levels| writer.arrays(levels)).transpose()?;
        let numbers = rows.numbers().map(|numbers| writer.arrays([numbers])).transpose()?;
        let starts = writer.arrays([rows.starts()])?;
        let span = part.keys.as_ref().and_then(|keys| keys.span());
        let keys = keys
            .map(|keys| {
                writer.section(|out| {
                    encoded(keys, |message, body| {
                        out.write_all(message)?;
                        out.write_all(body)
                    })
                })
            })
            .transpose()?;
        let trailer = json!({
            "version": VERSION,
            "written_by": env!("CARGO_PKG_VERSION"),
            "on": columns.on.0,
            "end": columns.on.1,
            "by": columns.by,
            "keep": columns.keep,
            "open_ends": columns.open_ends,
            "span": part.span,
            "rows": self.rows(),
            "ascending": rows.ascending(),
            "is_sorted": rows.is_sorted(),
            "key_span": span,
            "sections": {
                "magic": magic, "rows": of_rows, "messages": messages, "times": times, "ends": ends,
                "numbers": numbers,
                "starts": starts, "keys": keys,
            },
        });
        let trailer = trailer.to_string().into_bytes();
        writer.file.write_all(&trailer)?;
        writer.file.write_all(&(trailer.len() as u64).to_le_bytes())?;
        writer.file.write_all(&xxh3_64(&trailer).to_le_bytes())?;
        writer.file.write_all(MAGIC)?;
        writer.file.flush()?;
        Ok(())
    }

    /// Returns the index as a single part, which may require merging its parts.
    fn in_one_part(&self, driver: &Driver) -> Result<(IndexColumns, Part)> {
        let index = self.index().expect("the table has an index");
        let columns = index.columns.clone();
        if let [part] = &index.parts[..]
            && part.expired == 0
        {
            return Ok((columns, part.clone()));
        }
        let part = Part::new(self, &columns, driver)?;
        Ok((columns, part))
    }
}

/// Returns the keys in the order of their numbers, which is the order of their first rows.
fn keys_of(table: &Table, lookup: &KeyLookup, by: &[usize], driver: &Driver) -> Result<Table> {
    let mut first = Vec::with_capacity(lookup.count());
    for (&number, row) in lookup.own_numbers(table, driver)?.iter().zip(0..) {
        // A row without a key has a larger number than all keys.
        if number as usize == first.len() {
            first.push(row);
        }
    }
    let fields = by.iter().map(|&at| table.schema().field(at).clone()).collect::<Vec<Field>>();
    let schema = Arc::new(Schema::new(fields));
    let keys = table.batches().iter().map(|batch| {
        let columns = by.iter().map(|&at| batch.column(at).clone()).collect();
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    });
    let keys = Table::of_valid("keys", schema.clone(), keys.collect::<Result<_>>()?)?;
    keys.taken(&first)
}

/// Encodes a table as an IPC stream. Each message, with its body, is passed to `each`.
fn encoded(table: &Table, mut each: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
    let of_arrow = |error| match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    };
    let mut stream = StreamWriter::try_new(Vec::new(), table.schema()).map_err(of_arrow)?;
    let mut drain = |stream: &mut StreamWriter<Vec<u8>>| {
        let bytes = std::mem::take(stream.get_mut());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (message, body) = message_in(rest).ok_or_else(|| io::Error::other("a message"))?;
            let (message, bodies) = rest.split_at(message);
            let (body, others) = bodies.split_at(body);
            each(message, body)?;
            rest = others;
        }
        Ok::<_, io::Error>(())
    };
    drain(&mut stream)?;
    for batch in table.batches() {
        for start in (0..batch.num_rows()).step_by(MESSAGE_ROWS) {
            let rows = batch.slice(start, MESSAGE_ROWS.min(batch.num_rows() - start));
            stream.write(&rows).map_err(of_arrow)?;
            drain(&mut stream)?;
        }
    }
    Ok(())
}

/// Returns the lengths of the first message in these bytes and of its body.
fn message_in(bytes: &[u8]) -> Option<(usize, usize)> {
    let (head, rest) = bytes.split_at_checked(MESSAGE_HEAD)?;
    let len = u32::from_le_bytes(head[size_of::<u32>()..].try_into().ok()?) as usize;
    let message = root_as_message(rest.get(..len)?).ok()?;
    Some((MESSAGE_HEAD + len, usize::try_from(message.bodyLength()).ok()?))
}

/// Opens a file that was written by [`Table::save_index`]. With `verify`, the checksums of all
/// sections are verified, so the whole file is read.
pub fn open_index(path: &Path, verify: bool, driver: &Driver) -> Result<Table> {
    let name = path.display().to_string();
    let failed = |error: io::Error| Error::state(format!("{name}: cannot be read: {error}"));
    let mut file = File::open(path).map_err(failed)?;
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    if size < ENDING as u64 {
        return Err(foreign(&name));
    }
    let file = FileMap::open(&file).map_err(failed)?;
    IndexFile { name, trailer: Value::Null, file }.table(verify, driver)
}

fn foreign(name: &str) -> Error {
    Error::state(format!(
        "{name}: expected an index that was written by Index.save; the file is something else, \
         or incomplete"
    ))
}

struct IndexFile {
    name: String,
    file: FileMap,
    trailer: Value,
}

impl IndexFile {
    fn damaged(&self, what: &str) -> Error {
        damaged(&self.name, what)
    }

    fn table(mut self, verify: bool, driver: &Driver) -> Result<Table> {
        let bytes = self.file.as_ref();
        let (rest, ending) = bytes.split_at(bytes.len() - ENDING);
        let number = |at: usize| {
            let bytes = &ending[at * size_of::<u64>()..][..size_of::<u64>()];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        if !bytes.starts_with(MAGIC) || !ending.ends_with(MAGIC) {
            return Err(foreign(&self.name));
        }
        let trailer = usize::try_from(number(0)).ok().and_then(|len| rest.len().checked_sub(len));
        let trailer = &rest[trailer.ok_or_else(|| self.damaged("its trailer is incomplete"))?..];
        if xxh3_64(trailer) != number(1) {
            return Err(self.damaged("the checksum of its trailer does not match"));
        }
        let trailer: Value = serde_json::from_slice(trailer)
            .map_err(|_| self.damaged("its trailer is malformed"))?;
        self.trailer = trailer;
        let version = self.number("version")?;
        if version > VERSION as usize {
            return Err(Error::state(format!(
                "{}: the index was written by a later version of tidegate, in format {version}; this \
                 version reads format {VERSION}; upgrade tidegate, or save the index with this \
                 version",
                self.name
            )));
        }
        self.checked_table(verify, driver)
    }

    fn checked_table(&self, verify: bool, driver: &Driver) -> Result<Table> {
        let section = |name| self.section(name);
        let needed = |name| section(name)?.ok_or_else(|| self.damaged("a section is missing"));
        let (rows, messages) = (needed("rows")?, needed("messages")?);
        let (times, starts) = (needed("times")?, needed("starts")?);
        let (ends, numbers, keys) = (section("ends")?, section("numbers")?, section("keys")?);
        let small: Vec<_> =
            [messages.clone(), starts.clone()].into_iter().chain(keys.clone()).collect();
        if !are_intact(&self.file, &small, driver)? {
            return Err(self.damaged(CHECKSUM));
        }
        let large: Vec<_> =
            [Some(times.clone()), ends.clone(), numbers.clone()].into_iter().flatten().collect();
        if verify {
            let magic = section("magic")?;
            let all: Vec<_> =
                magic.into_iter().chain([rows.clone()]).chain(large.clone()).collect();
            if !are_intact(&self.file, &all, driver)? {
                return Err(self.damaged(CHECKSUM));
            }
        }
        let table = self.read(&messages, Some(&rows))?;
        let columns = self.columns(&table)?;
        let side = SideIndex::of_saved(
            self.values::<u32>(&starts)?.to_vec(),
            self.values::<i64>(&times)?,
            numbers.as_ref().map(|numbers| self.values::<u32>(numbers)).transpose()?,
            (self.flag("ascending")?, self.flag("is_sorted")?),
            table.rows(),
        );
        let side = side.ok_or_else(|| self.damaged("its sections are inconsistent"))?;
        let keys = self.keys(keys, (&table, &columns), driver)?;
        let tree = ends.map(|ends| self.tree(&side, &ends)).transpose()?;
        if tree.is_some() != columns.on.1.is_some()
            || keys.as_ref().map_or(1, KeyLookup::count) != side.key_count()
            || self.number("rows")? != table.rows()
        {
            return Err(self.damaged("its sections are inconsistent"));
        }
        let unverified = SectionCheck {
            name: self.name.clone(),
            file: self.file.clone(),
            sections: large,
            is_intact: OnceLock::new(),
        };
        let part = Part {
            batches: table.batches().to_vec(),
            rows: Arc::new(side),
            ends: tree.map(Arc::new),
            keys: keys.map(Arc::new),
            expired: 0,
            earliest: i64::MIN,
            span: self.pair("span")?,
            unverified: Some(Arc::new(unverified)),
        };
        Ok(table.with_prepared(Some(Arc::new(TableIndex { columns, parts: vec![part] }))))
    }

    fn tree(&self, rows: &SideIndex, section: &Section) -> Result<EndTree> {
        let start = section.bytes.start;
        let level =
            |bytes: Range<usize>| Pages::mapped(&self.file, start + bytes.start..start + bytes.end);
        let tree = EndTree::of_saved(rows, level);
        tree.filter(|tree| tree.bytes() == section.bytes.len())
            .ok_or_else(|| self.damaged("its sections are inconsistent"))
    }

    fn columns(&self, table: &Table) -> Result<IndexColumns> {
        let by = self.trailer["by"].as_array().into_iter().flatten();
        let by: Option<Vec<usize>> = by.map(|at| at.as_u64().map(|at| at as usize)).collect();
        let (on, by) = (self.number("on")?, by.ok_or_else(|| self.damaged("no keys"))?);
        let fields = table.schema().fields().len();
        let end = self.trailer["end"].as_u64().map(|end| end as usize);
        if on.max(end.unwrap_or(0)) >= fields || by.iter().any(|&at| at >= fields) {
            return Err(self.damaged("its columns are missing"));
        }
        let times = [Some(on), end].into_iter().flatten();
        let fields: Vec<_> =
            times.map(|at| (self.name.as_str(), table.schema().field(at))).collect();
        let unit = time::finest_unit(&fields)?;
        let keep = self.trailer["keep"].as_i64();
        let open_ends = self.trailer["open_ends"].as_bool().unwrap_or_default();
        Ok(IndexColumns { on: (on, end), unit, by, keep, open_ends })
    }

    fn keys(
        &self,
        keys: Option<Section>,
        (table, columns): (&Table, &IndexColumns),
        driver: &Driver,
    ) -> Result<Option<KeyLookup>> {
        if columns.by.is_empty() {
            return Ok(None);
        }
        if let Some(ends) = self.pair("key_span")? {
            return KeyLookup::of_span(table, &columns.by, ends).map(Some);
        }
        let Some(section) = keys else { return Err(self.damaged("its keys are missing")) };
        let keys = self.read(&section, None)?;
        KeyLookup::of_keys(&keys, &columns.by, driver).map(Some)
    }

    fn number(&self, name: &str) -> Result<usize> {
        let number = self.trailer[name].as_u64();
        number.map(|number| number as usize).ok_or_else(|| self.damaged("a number is missing"))
    }

    /// Returns a pair of integers, or `None` if the index has no such pair.
    fn pair(&self, name: &str) -> Result<Option<(i64, i64)>> {
        let entry = &self.trailer[name];
        if entry.is_null() {
            return Ok(None);
        }
        match (entry[0].as_i64(), entry[1].as_i64()) {
            (Some(low), Some(high)) => Ok(Some((low, high))),
            _ => Err(self.damaged("a pair of numbers is malformed")),
        }
    }

    fn flag(&self, name: &str) -> Result<bool> {
        self.trailer[name].as_bool().ok_or_else(|| self.damaged("a flag is missing"))
    }

    /// Returns the position of a section, or `None` if the index has no such section.
    fn section(&self, name: &str) -> Result<Option<Section>> {
        let entry = &self.trailer["sections"][name];
        if entry.is_null() {
            return Ok(None);
        }
        let end = |name: &str| entry[name].as_u64().map(|end| end as usize);
        let checksums = entry["checksums"].as_array().into_iter().flatten();
        let checksums: Option<Vec<u64>> = checksums.map(Value::as_u64).collect();
        let (Some(start), Some(end), Some(checksums)) = (end("start"), end("end"), checksums)
        else {
            return Err(self.damaged("a section is malformed"));
        };
        let padded = end.next_multiple_of(ALIGNED as usize);
        let fits = start <= end
            && padded <= self.file.as_ref().len()
            && checksums.len() == (padded - start).div_ceil(CHECKED_BYTES);
        if !fits {
            return Err(self.damaged("a section is incomplete"));
        }
        Ok(Some(Section { bytes: start..end, padded, checksums }))
    }

    fn values<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        section: &Section,
    ) -> Result<Pages<T>> {
        let values = Pages::mapped(&self.file, section.bytes.clone());
        values.ok_or_else(|| self.damaged("a section is not aligned"))
    }

    /// Returns the table that messages describe. Its values stay where they are mapped: in another
    /// section, or after each message.
    fn read(&self, messages: &Section, bodies: Option<&Section>) -> Result<Table> {
        let malformed = |error| self.damaged(&format!("its rows are malformed: {error}"));
        let all = Buffer::from(Bytes::from_owner(self.file.clone()));
        let mut rest = messages.bytes.clone();
        let mut body_at = bodies.map(|bodies| bodies.bytes.start);
        let mut decoder = StreamDecoder::new();
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let found = message_in(&self.file.as_ref()[rest.clone()]);
            let (message, body) = found.ok_or_else(|| self.damaged("a message is malformed"))?;
            let start = body_at.unwrap_or(rest.start + message);
            let end = bodies.unwrap_or(messages).padded;
            if start > end || body > end - start {
                return Err(self.damaged("a section is incomplete"));
            }
            for (start, len) in [(rest.start, message), (start, body)] {
                let mut bytes = all.slice_with_length(start, len);
                while !bytes.is_empty() {
                    batches.extend(decoder.decode(&mut bytes).map_err(malformed)?);
                }
            }
            match &mut body_at {
                Some(at) => {
                    *at = (start + body).next_multiple_of(ALIGNED as usize);
                    rest.start += message;
                }
                None => rest.start = start + body,
            }
        }
        // The decoder handles a message without a body only when more bytes follow.
        decoder.decode(&mut Buffer::from(END_OF_STREAM.as_slice())).map_err(malformed)?;
        let schema = decoder.schema().ok_or_else(|| self.damaged("its rows have no schema"))?;
        Table::of_valid(self.name.as_str(), schema, batches)
    }
}
