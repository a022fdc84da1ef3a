//! `LIKE`, `ILIKE` and `REGEXP`, which match strings against a pattern.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, Scalar, StringViewArray};
use arrow_schema::{ArrowError, DataType};
use arrow_string::like::{ilike, like};
use regex::Regex;

use super::Language;
use crate::columns::cast::cast;
use crate::{Error, Result};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// The syntax of Arrow's `like`, in which a backslash makes the next character literal.
    Like(String),
    /// The same syntax, but case-insensitive.
    ILike(String),
    Regexp(Regex),
}

/// Compiles the pattern of the condition `text`.
pub(super) fn compile(text: &str, language: Language, pattern: &str) -> Result<Pattern> {
    // In this pattern, a backslash is an ordinary character.
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

/// Returns which strings match, with nulls for null strings.
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
