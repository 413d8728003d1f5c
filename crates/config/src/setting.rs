//! Reading typed values out of a document, and the two macros that declare them.
//!
//! Why not a derived `Deserialize`: it stops at the first wrong value and cannot tell a field that
//! is absent from one that holds zero. Here every wrong value is noted with its path and reading
//! goes on with the default.

mod declare;
mod values;

use std::fmt;

pub(crate) use declare::{settings, words};
use serde_json::{Map, Value};
use thiserror::Error;
pub(crate) use values::integer;

use crate::finding::{At, Findings};

/// A type that can stand in a configuration file.
pub(crate) trait Setting: Sized {
    /// Whether null stands for an absent value in a field that takes zero for "not set".
    const TAKES_NULL: bool = true;

    /// Reads a node; a node that cannot be used is noted, and answered with `None`.
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self>;

    /// Sets the value that the path leads to; a path that leads nowhere is noted.
    ///
    /// Unlike reading a document, a zero is taken as it stands.
    fn assign(&mut self, path: &[&str], node: &Value, at: &At<'_>, findings: &mut Findings) {
        if !path.is_empty() {
            findings.unknown(at);
        } else if let Some(value) = Self::read(node, at, findings) {
            *self = value;
        }
    }

    /// The value that null stands for in a map, if it stands for one.
    fn of_null() -> Option<Self> {
        None
    }

    /// Whether the node spells the zero value, which some fields take for "not set".
    fn is_zero_node(node: &Value) -> bool {
        node.is_null() || node == ""
    }

    /// Whether the value is left out of a written file when its field takes zero for "not set".
    fn is_empty(&self) -> bool {
        false
    }

    /// Whether there is nothing to write at all.
    fn is_absent(&self) -> bool {
        false
    }
}

/// What an explicit zero (`0`, `false`, empty text) in a field means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    /// The same as leaving the field out: the default comes back.
    Unset,
    /// A value like any other.
    Kept,
    /// A value like any other, which is left out of a written file all the same.
    KeptUnwritten,
}

impl Zero {
    /// Whether the node sets a field of this kind at all.
    pub(crate) fn is_set_by<T: Setting>(self, node: &Value) -> bool {
        match self {
            // A null that no value can be made of is noted as such.
            Self::Unset if node.is_null() => !T::TAKES_NULL,
            Self::Unset => !T::is_zero_node(node),
            Self::Kept | Self::KeptUnwritten => !node.is_null(),
        }
    }

    /// Whether a field of this kind is left out when it is written.
    pub(crate) fn omits<T: Setting>(self, value: &T) -> bool {
        value.is_absent() || (self != Self::Kept && value.is_empty())
    }
}

/// The entries of an object; anything else is noted.
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

/// Reads a text that has a form of its own.
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

/// The key of a map: any text, or one of a closed list of words.
pub(crate) trait Key: Ord + Sized {
    /// Reads a key; the error says what is accepted.
    fn from_key(text: &str) -> Result<Self, UnknownWord>;
}

impl Key for String {
    fn from_key(text: &str) -> Result<Self, UnknownWord> {
        Ok(text.to_owned())
    }
}

/// A text that is not one of the words a field accepts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is none of {}", accepted.join(", "))]
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
