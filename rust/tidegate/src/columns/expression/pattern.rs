//! `LIKE`, `ILIKE` and `REGEXP`: text against a pattern.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, Scalar, StringViewArray};
use arrow_schema::{ArrowError, DataType};
use arrow_string::like::{ilike, like};
use regex::Regex;

use super::Language;
use crate::columns::cast::cast;
use crate::{Error, Result};

/// A pattern, ready to be matched.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// As Arrow's `like` has it: a backslash before a character takes it as it is.
    Like(String),
    /// The same, whether letters are upper or lower case.
    ILike(String),
    Regexp(Regex),
}

/// The pattern of the condition `text`.
pub(super) fn compile(text: &str, language: Language, pattern: &str) -> Result<Pattern> {
    // Here a backslash is a character as any other.
    let escaped = || pattern.replace('\\', r"\\");
    match language {
        Language::Like => Ok(Pattern::Like(escaped())),
        Language::ILike => Ok(Pattern::ILike(escaped())),
        Language::Regexp => Regex::new(pattern).map(Pattern::Regexp).map_err(|error| {
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
        }),
    }
}

/// Which texts match; null where there is none.
pub(super) fn matches(texts: &ArrayRef, pattern: &Pattern) -> Result<ArrayRef, ArrowError> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let of = |pattern: &String| Scalar::new(StringViewArray::from(vec![pattern.as_str()]));
    Ok(Arc::new(match pattern {
        Pattern::Like(pattern) => like(&texts, &of(pattern))?,
        Pattern::ILike(pattern) => ilike(&texts, &of(pattern))?,
        Pattern::Regexp(regex) => {
            let texts = texts.as_string_view().iter();
            texts.map(|text| text.map(|text| regex.is_match(text))).collect::<BooleanArray>()
        }
    }))
}
