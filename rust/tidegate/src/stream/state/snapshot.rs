//! The bytes of a snapshot: the query's text, the state and a checksum.
//!
//! ```text
//! "TIDEGATE"  version u16  query text  state ...  CRC-32 of all before
//! ```
//!
//! Numbers are little-endian. Strings, bytes and tables start with their length. Tables are Arrow
//! IPC streams.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use regex::{Captures, Regex};
use tidegate_structures::memory;

use super::stored_table;
use crate::columns::duration::duration_text;
use crate::error::shown_up_to;
use crate::{Error, Result};

const MAGIC: &[u8] = b"TIDEGATE";

/// A number of rows that is never reached in practice, yet is small enough that counting can
/// continue from it.
const MOST_ROWS: u64 = 1 << 48;

/// The approximate size of the smallest table, in bytes.
pub(crate) const TABLE_BYTES: usize = 64;

/// The format version, which is incremented when older versions of tidegate cannot read the new
/// format.
const VERSION: u16 = 1;

/// The format that includes extra source data, for operators with sources that are idle or were
/// added later. Versions of tidegate that do not support such sources cannot read this format. The
/// extended format is used only if it is needed.
const EXTENDED: u16 = 2;

/// Writes a snapshot.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Starts the snapshot of an operator whose query is `query`.
    pub(crate) fn new(query: &str) -> Self {
        let mut writer = Writer(MAGIC.to_vec());
        writer.0.extend(VERSION.to_le_bytes());
        writer.bytes(query.as_bytes());
        writer
    }

    /// Switches to the format that includes extra source data.
    pub(crate) fn extend(&mut self) {
        self.0[MAGIC.len()..][..size_of::<u16>()].copy_from_slice(&EXTENDED.to_le_bytes());
    }

    /// Returns whether the snapshot includes extra source data.
    pub(crate) fn is_extended(&self) -> bool {
        self.0[MAGIC.len()..].starts_with(&EXTENDED.to_le_bytes())
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn time(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        memory::reserve(&mut self.0, size_of::<u64>() + value.len());
        self.number(value.len() as u64);
        self.0.extend(value);
    }

    /// Writes a flag for each row that shows whether the row has been matched. Also writes how many
    /// of the first rows are settled.
    pub(crate) fn matched(&mut self, (matched, settled): &(Vec<bool>, usize)) {
        self.bytes(&memory::collect(matched.iter().map(|&matched| u8::from(matched))));
        self.number(*settled as u64);
    }

    /// Writes rows.
    pub(crate) fn table(&mut self, rows: &RecordBatch) -> Result<()> {
        self.bytes(&stored_table::write(rows)?);
        Ok(())
    }

    /// Returns the whole snapshot.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.0);
        self.0.extend(checksum.to_le_bytes());
        self.0
    }
}

/// Reads a snapshot.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    is_extended: bool,
}

/// The last line of a query's text. This line is present only if the operator computes a digest of
/// its results.
pub(crate) const DIGESTED: &str = "digest: of the results";

/// The advice for a snapshot that belongs to a different query.
const SAME: &str = "restore it into an operator with the same columns and arguments";

impl<'a> Reader<'a> {
    /// Checks that `snapshot` is complete and belongs to an operator with the query `query`.
    pub(crate) fn new(snapshot: &'a [u8], query: &str) -> Result<Self> {
        let Some(rest) = snapshot.strip_prefix(MAGIC) else {
            return Err(Error::state(
                "these bytes are not a snapshot of tidegate: they do not begin like one; give the \
                 bytes that snapshot() returned",
            ));
        };
        let Some((version, _)) = rest.split_first_chunk::<2>() else {
            return Err(damaged("it ends early"));
        };
        let version = u16::from_le_bytes(*version);
        if version != VERSION && version != EXTENDED {
            return Err(Error::state(format!(
                "the snapshot has version {version}, but this version of tidegate reads only \
                 versions {VERSION} and {EXTENDED}; use the version of tidegate that wrote it"
            )));
        }
        let Some((content, checksum)) = snapshot.split_last_chunk::<4>() else {
            return Err(damaged("it ends early"));
        };
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(damaged("its checksum does not match its bytes"));
        }
        let rest = &content[MAGIC.len() + size_of::<u16>()..];
        let mut reader = Reader { rest, is_extended: version == EXTENDED };
        let written = String::from_utf8_lossy(reader.bytes()?).into_owned();
        let differs =
            written.lines().zip(query.lines()).find(|(written, wanted)| written != wanted);
        match differs {
            Some(lines) => {
                let (written, wanted) = where_they_differ(lines);
                let (written, wanted) = (readable(&written), readable(&wanted));
                Err(Error::state(format!(
                    "the snapshot belongs to another query: it has {written}, but this \
                     operator has {wanted}; {SAME}"
                )))
            }
            None if more(&written, query) == Some(DIGESTED) => Err(Error::state(
                "the snapshot has a digest of its results, but this operator does not compute one; \
                 create it with digest=True",
            )),
            None if more(query, &written) == Some(DIGESTED) => Err(Error::state(
                "the snapshot has no digest of its results, but this operator computes one; create \
                 it with digest=False",
            )),
            None if written != query => {
                Err(Error::state(format!("the snapshot belongs to another query; {SAME}")))
            }
            None => Ok(reader),
        }
    }

    /// Returns whether the snapshot includes extra source data.
    pub(crate) fn is_extended(&self) -> bool {
        self.is_extended
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| damaged("it contains a part that is longer than the rest"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.take(1)?[0] {
            flag @ 0..=1 => Ok(flag == 1),
            _ => Err(damaged("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    /// Reads the number of rows that have been added or removed so far.
    pub(crate) fn rows(&mut self) -> Result<u64> {
        self.number().and_then(|rows| {
            if rows <= MOST_ROWS {
                Ok(rows)
            } else {
                Err(damaged("it counts more rows than an operator can accept"))
            }
        })
    }

    /// Reads the number of items that follow. Each item takes up at least `least` bytes.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > self.rest.len() / least {
            return Err(damaged("one of its parts claims more entries than there are bytes"));
        }
        Ok(count)
    }

    pub(crate) fn time(&mut self) -> Result<i64> {
        Ok(self.number()?.cast_signed())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.count(1)?;
        self.take(len)
    }

    /// Reads the output of [`Writer::matched`] for `rows` rows, if the query depends on which rows
    /// have been matched.
    pub(crate) fn matched(&mut self, rows: usize, matters: bool) -> Result<(Vec<bool>, usize)> {
        let (matched, settled) = (self.bytes()?, self.number()?);
        let expected = if matters { rows } else { 0 };
        if matched.len() != expected
            || settled > expected as u64
            || matched.iter().any(|&byte| byte > 1)
        {
            return Err(damaged("it does not record whether each row has been matched"));
        }
        Ok((memory::collect(matched.iter().map(|&byte| byte == 1)), settled as usize))
    }

    /// Reads a table, which must have the given schema.
    pub(crate) fn table(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = stored_table::read(self.bytes()?, schema);
        rows.map_err(|why| damaged(&format!("a table cannot be read: {why}")))
    }

    /// Checks that the entire snapshot has been read.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(damaged("bytes follow its end")) }
    }
}

/// Returns the error for a snapshot with a correct checksum but incorrect content.
pub(crate) fn damaged(what: &str) -> Error {
    Error::state(format!("the snapshot is damaged: {what}; take an older one"))
}

/// Returns both lines. If the lines are long, only the parts around the first difference are
/// returned.
fn where_they_differ((written, wanted): (&str, &str)) -> (String, String) {
    const SHOWN: usize = 200;
    const BEFORE: usize = 40;
    let same = written.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        if text.chars().count() <= SHOWN {
            return text.to_owned();
        }
        let from = same.saturating_sub(BEFORE);
        let rest: String = text.chars().skip(from).collect();
        let mark = if from > 0 { "…" } else { "" };
        format!("{mark}{}", shown_up_to(&rest, SHOWN))
    };
    (part(written), part(wanted))
}

/// Skips as many lines of `query` as `other` has, and returns the next line of `query`.
fn more<'a>(query: &'a str, other: &str) -> Option<&'a str> {
    query.lines().nth(other.lines().count())
}

/// Formats a line of a query as users write it: `lower: -2s` for
/// `lower: Some(Nanoseconds(-2000000000))`.
fn readable(line: &str) -> String {
    let regex = |pattern: &str| Regex::new(pattern).expect("a regular expression");
    let lengths = regex(r"Nanoseconds\((-?\d{1,30})\)");
    let duration = |found: &Captures<'_>| duration_text(found[1].parse().unwrap_or_default());
    let line = lengths.replace_all(line, duration);
    let line = regex(r"Steps\((-?\d+)\)").replace_all(&line, "$1");
    regex(r"Some\(([^()]*)\)").replace_all(&line, "$1").into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_schema::Schema;

    use super::*;

    fn example() -> (RecordBatch, Vec<u8>) {
        let columns: [(&str, ArrayRef); 2] = [
            ("a", Arc::new(Int64Array::from(vec![1, 2]))),
            ("b", Arc::new(StringArray::from(vec![Some("x"), None]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = Writer::new("on: ts\nhow: inner");
        writer.flag(true);
        writer.time(i64::MIN);
        writer.table(&rows.slice(1, 1)).unwrap();
        (rows, writer.finish())
    }

    #[test]
    fn what_is_written_is_read() {
        let (rows, snapshot) = example();
        let mut reader = Reader::new(&snapshot, "on: ts\nhow: inner").unwrap();
        assert!(reader.flag().unwrap());
        assert_eq!(reader.time().unwrap(), i64::MIN);
        assert_eq!(reader.table(&rows.schema()).unwrap(), rows.slice(1, 1));
        assert!(reader.flag().unwrap_err().is_state());
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let rows = stored_table::batch(&Arc::new(Schema::empty()), Vec::new(), 7).unwrap();
        let mut writer = Writer::new("");
        writer.table(&rows).unwrap();
        let snapshot = writer.finish();
        assert_eq!(Reader::new(&snapshot, "").unwrap().table(&rows.schema()).unwrap(), rows);
    }

    #[test]
    fn every_damage_is_seen() {
        let (_, snapshot) = example();
        for at in 0..snapshot.len() {
            let mut damaged = snapshot.clone();
            damaged[at] ^= 0x10;
            assert!(
                Reader::new(&damaged, "on: ts\nhow: inner").err().unwrap().is_state(),
                "byte {at}"
            );
            assert!(
                Reader::new(&snapshot[..at], "on: ts\nhow: inner").err().unwrap().is_state(),
                "{at} bytes"
            );
        }
        let error = Reader::new(&snapshot, "on: ts\nhow: left").err().unwrap();
        assert!(
            error.message().contains("it has how: inner, but this operator has how: left"),
            "{error}"
        );
    }

    /// Passes a writer's output to a reader and returns the reader's result.
    fn read<T>(
        write: impl FnOnce(&mut Writer),
        read: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> std::result::Result<T, String> {
        let mut writer = Writer::new("");
        write(&mut writer);
        let snapshot = writer.finish();
        let mut reader = Reader::new(&snapshot, "").unwrap();
        let found = read(&mut reader).and_then(|found| reader.finish().map(|()| found));
        found.map_err(|error| {
            assert!(error.is_state(), "{error}");
            error.message().to_owned()
        })
    }

    #[test]
    fn each_part_is_read_as_it_was_written() {
        assert_eq!(read(|to| to.number(u64::MAX), |from| from.number()), Ok(u64::MAX));
        assert_eq!(read(|to| to.time(-5), |from| from.time()), Ok(-5));
        assert_eq!(read(|to| to.time(i64::MAX), |from| from.time()), Ok(i64::MAX));
        for flag in [false, true] {
            assert_eq!(read(|to| to.flag(flag), |from| from.flag()), Ok(flag));
        }
        for bytes in [&b""[..], b"a", &[7; 300]] {
            let found = read(|to| to.bytes(bytes), |from| from.bytes().map(<[u8]>::to_vec));
            assert_eq!(found.as_deref(), Ok(bytes));
        }
        assert_eq!(read(|to| to.number(MOST_ROWS), |from| from.rows()), Ok(MOST_ROWS));
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let flag = read(|to| to.0.push(2), |from| from.flag()).unwrap_err();
        assert!(flag.contains("a flag is neither 0 nor 1"), "{flag}");
        let rows = read(|to| to.number(MOST_ROWS + 1), |from| from.rows()).unwrap_err();
        assert!(rows.contains("it counts more rows than an operator can accept"), "{rows}");
        let count = |count, bytes| {
            let of_two =
                |from: &mut Reader<'_>| from.count(2).and_then(|n| from.take(bytes).map(|_| n));
            read(|to| (to.number(count), to.0.extend(vec![0; bytes])).1, of_two)
        };
        for (entries, bytes) in [(0, 0), (0, 1), (1, 2), (1, 3), (5, 10)] {
            assert_eq!(count(entries as u64, bytes), Ok(entries));
        }
        for (entries, bytes) in [(1, 0), (1, 1), (2, 3), (6, 10), (u64::MAX, 10)] {
            let refused = count(entries, bytes).unwrap_err();
            assert!(refused.contains("more entries than there are bytes"), "{refused}");
        }
        let longer = read(|to| to.0.extend([0; 7]), |from| from.number()).unwrap_err();
        assert!(longer.contains("it contains a part that is longer than the rest"), "{longer}");
        let behind = read(|to| to.flag(true), |_| Ok(())).unwrap_err();
        assert!(behind.contains("bytes follow its end"), "{behind}");
    }

    #[test]
    fn matches_are_of_as_many_rows_as_there_are() {
        let matched = |bytes: &[u8], settled: u64, rows, matters| {
            let write = |to: &mut Writer| (to.bytes(bytes), to.number(settled)).1;
            let found = read(write, |from| from.matched(rows, matters));
            found.inspect_err(|why| {
                assert!(why.contains("whether each row has been matched"), "{why}")
            })
        };
        let some = (vec![true, false, true], 2);
        assert_eq!(read(|to| to.matched(&some), |from| from.matched(3, true)), Ok(some.clone()));
        assert_eq!(matched(&[1, 0, 1], 2, 3, true), Ok(some));
        assert_eq!(matched(&[0], 1, 1, true), Ok((vec![false], 1)));
        assert_eq!(matched(&[], 0, 3, false), Ok((Vec::new(), 0)));
        assert!(matched(&[1, 0, 1], 2, 2, true).is_err());
        assert!(matched(&[1, 0, 1], 2, 4, true).is_err());
        assert!(matched(&[1, 0, 1], 4, 3, true).is_err());
        assert!(matched(&[1, 0, 2], 2, 3, true).is_err());
        assert!(matched(&[1, 0, 1], 0, 3, false).is_err());
        assert!(matched(&[], 1, 3, false).is_err());
    }

    #[test]
    fn a_query_is_told_as_it_is_written() {
        let lower = "lower: Some(Nanoseconds(-90000000000))";
        assert_eq!(readable(lower), "lower: -90s");
        assert_eq!(readable("lower: Some(Steps(-2))"), "lower: -2");
        assert_eq!(readable("where: None"), "where: None");
    }

    #[test]
    fn a_snapshot_without_content_or_of_another_version_is_refused() {
        let whole = [MAGIC, &VERSION.to_le_bytes()].concat();
        let why = |content: &[u8], query: &str| {
            let snapshot = [content, &crc32fast::hash(content).to_le_bytes()].concat();
            Reader::new(&snapshot, query).err().expect("it is refused").message().to_owned()
        };
        for len in 0..whole.len() {
            Reader::new(&whole[..len], "").err().expect("it is refused");
            why(&whole[..len], "");
        }
        assert!(why(&whole, "").contains("it contains a part that is longer than the rest"));
        let next = [MAGIC, &(EXTENDED + 1).to_le_bytes(), &[0; 8]].concat();
        assert!(
            why(&next, "")
                .contains("version 3, but this version of tidegate reads only versions 1 and 2")
        );
        let mut extended = Writer::new("on: ts");
        assert!(!extended.is_extended());
        extended.extend();
        let extended = extended.finish();
        assert!(Reader::new(&extended, "on: ts").expect("it is whole").is_extended());
        // If one query continues where the other one ends, all lines that both have are equal.
        let content = |query: &str| Writer::new(query).0;
        for (written, wanted) in
            [("on: ts", "on: ts\nby: k"), ("on: ts\nby: k", "on: ts"), ("", "on: ts")]
        {
            let why = why(&content(written), wanted);
            assert_eq!(why, format!("the snapshot belongs to another query; {SAME}"));
        }
    }

    #[test]
    fn long_lines_are_told_apart_where_they_differ() {
        let columns = |last: &str| {
            let names: Vec<String> = (0..200).map(|at| format!("c{at}: Int64")).collect();
            format!("left: {}, {last}: Utf8", names.join(", "))
        };
        let (written, wanted) = where_they_differ((&columns("price"), &columns("bid")));
        assert!(written.starts_with('…') && written.ends_with("c199: Int64, price: Utf8"));
        assert!(wanted.starts_with('…') && wanted.ends_with("c199: Int64, bid: Utf8"));
        assert_eq!(where_they_differ(("how: inner", "how: left")).0, "how: inner");
    }
}
