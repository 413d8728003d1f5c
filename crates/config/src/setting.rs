//! Reads typed values out of a document, and contains the two macros that declare them.
//!
//! Why not a derived `Deserialize`: it stops at the first wrong value and cannot distinguish a field that
//! is absent from one that is zero. Here every wrong value is reported with its path and reading
//! continues with the default.

mod declare;
mod values;

use std::fmt;

pub(crate) use declare::{settings, words};
use serde_json::{Map, Value};
use thiserror::Error;
pub(crate) use values::integer;

use crate::finding::{At, Findings};

/// A type of values in a configuration file.
pub(crate) trait Setting: Sized {
    /// Whether null means absent in a field where zero means "not set".
    const TAKES_NULL: bool = true;

    /// Reads a node; reports an invalid node and returns `None`.
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self>;

    /// Sets the value at the path; an unknown path is reported.
    ///
    /// Unlike in a document, a zero is a value.
    fn assign(&mut self, path: &[&str], node: &Value, at: &At<'_>, findings: &mut Findings) {
        if !path.is_empty() {
            findings.unknown(at);
        } else if let Some(value) = Self::read(node, at, findings) {
            *self = value;
        }
    }

    /// The value of null in a map, if it has one.
    fn of_null() -> Option<Self> {
        None
    }

    /// Whether the node is the zero value, which means "not set" in some fields.
    fn is_zero_node(node: &Value) -> bool {
        node.is_null() || node == ""
    }

    /// Whether the value is omitted from a written file when zero means "not set" in its field.
    fn is_empty(&self) -> bool {
        false
    }

    /// Whether there is nothing to write.
    fn is_absent(&self) -> bool {
        false
    }
}

/// The meaning of an explicit zero (`0`, `false`, empty text) in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    /// Equal to omitting the field: the default is used.
    Unset,
    /// A value like any other.
    Kept,
    /// A value like any other, but omitted from a written file.
    KeptUnwritten,
}

impl Zero {
    /// Whether the node sets a field of this kind.
    pub(crate) fn is_set_by<T: Setting>(self, node: &Value) -> bool {
        match self {
            // A null that is not a valid value is reported as such.
            Self::Unset if node.is_null() => !T::TAKES_NULL,
            Self::Unset => !T::is_zero_node(node),
            Self::Kept | Self::KeptUnwritten => !node.is_null(),
        }
    }

    /// Whether a field of this kind is omitted from a written file.
    pub(crate) fn omits<T: Setting>(self, value: &T) -> bool {
        value.is_absent() || (self != Self::Kept && value.is_empty())
    }
}

/// The entries of an object; anything else is reported.
pub(crate) fn object<'a>(
    node: &'a Value,
    at: &At<'_>,
    findings: &mut Findings,
) -> Option<&'a Map<String, Value>> {
    let entries = node.as_object();
    if entries.is_none() {
        findings.wrong_type(at, "an object", node);
    }
    entries
}

/// Reads a string with its own syntax.
pub(crate) fn parsed<T>(
    node: &Value,
    expected: &str,
    at: &At<'_>,
    findings: &mut Findings,
) -> Option<T>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    let Value::String(text) = node else {
        findings.wrong_type(at, expected, node);
        return None;
    };
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            findings.error(at, error);
            None
        }
    }
}

/// The key of a map: any string, or one of a closed list of words.
pub(crate) trait Key: Ord + Sized {
    /// Reads a key; the error says what is accepted.
    fn from_key(text: &str) -> Result<Self, UnknownWord>;
}

impl Key for String {
    fn from_key(text: &str) -> Result<Self, UnknownWord> {
        Ok(text.to_owned())
    }
}

/// A string that is not one of the words of a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is not one of {}", accepted.join(", "))]
pub struct UnknownWord {
    pub(crate) word: String,
    pub(crate) accepted: &'static [&'static str],
}

/// Reads one of a closed list of words.
pub(crate) fn word<T>(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<T>
where
    T: std::str::FromStr<Err = UnknownWord>,
{
    parsed(node, "a string", at, findings)
}
