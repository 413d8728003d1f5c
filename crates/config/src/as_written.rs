//! Values that keep their original notation.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use model::quantity::Quantity;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::finding::{At, Findings};
use crate::setting::Setting;

/// A value with its original text: the kubelet keeps the texts of some fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsWritten<T> {
    text: String,
    value: T,
}

impl<T: FromStr> AsWritten<T> {
    /// A value that is known to be valid.
    pub(crate) fn known(text: &str) -> Self {
        text.parse().unwrap_or_else(|_| unreachable!("{text} is not a valid value"))
    }
}

impl<T> AsWritten<T> {
    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<T: FromStr> FromStr for AsWritten<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(|value| Self { text: text.to_owned(), value })
    }
}

impl<T> Deref for AsWritten<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> fmt::Display for AsWritten<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Serialize for AsWritten<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Values that are strings in the file.
pub(crate) trait TextValue: FromStr {
    /// A description for errors.
    const EXPECTED: &'static str;
}

impl TextValue for Quantity {
    const EXPECTED: &'static str = "a quantity such as 100Mi, 1.5 or 250m";
}

impl TextValue for crate::duration::GoDuration {
    const EXPECTED: &'static str = "a duration such as 1m30s";
}

impl TextValue for std::net::IpAddr {
    const EXPECTED: &'static str = "an IP address";
}

fn text<T: TextValue>(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<AsWritten<T>> {
    let Value::String(text) = node else {
        findings.wrong_type(at, &format!("{} in quotes", T::EXPECTED), node);
        return None;
    };
    let written = text.parse().ok();
    if written.is_none() {
        findings.error(at, format_args!("{text:?} is not {}", T::EXPECTED));
    }
    written
}

impl<T: TextValue> Setting for AsWritten<T> {
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        text(node, at, findings)
    }
}

/// An amount in the API's canonical notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanonicalQuantity(pub Quantity);

impl Serialize for CanonicalQuantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Setting for CanonicalQuantity {
    /// Unlike a quantity that keeps its text, this may be a plain number.
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        let node = match node {
            Value::Number(number) => Value::String(number.to_string()),
            Value::String(text) => Value::String(text.trim().to_owned()),
            other => other.clone(),
        };
        text::<Quantity>(&node, at, findings).map(|written| Self(written.value))
    }

    fn is_zero_node(node: &Value) -> bool {
        node.is_null()
    }
}
