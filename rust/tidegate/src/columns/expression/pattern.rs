//! `LIKE` and `REGEXP`: text against a pattern.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use regex::Regex;

use super::Language;
use crate::{Error, Result};

/// The pattern of the condition `text`, ready to be matched.
pub(super) fn compile(text: &str, language: Language, pattern: &str) -> Result<Regex> {
    let regex = match language {
        Language::Regexp => Regex::new(pattern),
        Language::Like => Regex::new(&of_like(pattern)),
    };
    regex.map_err(|error| {
        let reason = error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned();
        Error::argument(format!(
            "where `{text}`: the regular expression does not compile: {reason}"
        ))
    })
}

/// The regular expression that a `LIKE` is.
fn of_like(pattern: &str) -> String {
    let character = |c: char| match c {
        '%' => ".*".to_owned(),
        '_' => ".".to_owned(),
        other => regex::escape(&other.to_string()),
    };
    format!(r"(?s)\A{}\z", pattern.chars().map(character).collect::<String>())
}

/// Which texts match; null where there is none.
pub(super) fn matches(texts: &ArrayRef, regex: &Regex) -> Result<ArrayRef, ArrowError> {
    fn each<'a>(texts: impl Iterator<Item = Option<&'a str>>, regex: &Regex) -> BooleanArray {
        texts.map(|text| text.map(|text| regex.is_match(text))).collect()
    }
    Ok(Arc::new(match texts.data_type() {
        DataType::Utf8 => each(texts.as_string::<i32>().iter(), regex),
        DataType::LargeUtf8 => each(texts.as_string::<i64>().iter(), regex),
        DataType::Utf8View => each(texts.as_string_view().iter(), regex),
        // A dictionary of text.
        _ => each(cast(texts, &DataType::Utf8View)?.as_string_view().iter(), regex),
    }))
}
