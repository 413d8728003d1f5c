//! The plain values: numbers, strings, durations, lists and maps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Key, Setting, object, parsed};
use crate::duration::GoDuration;
use crate::finding::{At, Findings};

impl Setting for bool {
    fn of_null() -> Option<Self> {
        Some(false)
    }

    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        let value = node.as_bool();
        if value.is_none() {
            findings.wrong_type(at, "true or false", node);
        }
        value
    }

    fn is_zero_node(node: &Value) -> bool {
        node.is_null() || node == false
    }

    fn is_empty(&self) -> bool {
        !self
    }
}

impl Setting for String {
    fn of_null() -> Option<Self> {
        Some(Self::new())
    }

    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        match node {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => {
                findings.wrong_type(at, "a string (put the value in quotes)", node);
                None
            }
            _ => {
                findings.wrong_type(at, "a string", node);
                None
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// A whole number of a node; `2.0` counts as one, since YAML readers write it so.
pub(crate) fn integer(node: &Value) -> Option<i64> {
    node.as_i64().or_else(|| {
        let value = node.as_f64()?;
        // 2^53: above it a float cannot represent every whole number.
        let exact = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
        #[expect(clippy::cast_possible_truncation, reason = "checked on the line above")]
        exact.then_some(value as i64)
    })
}

macro_rules! integer_settings {
    ($($ty:ty, $lowest:expr, $highest:expr;)*) => {$(
        impl Setting for $ty {
            fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
                if !node.is_number() {
                    findings.wrong_type(at, "an integer", node);
                    return None;
                }
                let value = integer(node)
                    .filter(|value| ($lowest..=$highest).contains(value))
                    .and_then(|value| Self::try_from(value).ok());
                if value.is_none() {
                    let expected = format!("an integer from {} to {}", $lowest, $highest);
                    findings.wrong_type(at, &expected, node);
                }
                value
            }

            fn is_zero_node(node: &Value) -> bool {
                node.is_null() || integer(node) == Some(0)
            }

            fn is_empty(&self) -> bool {
                *self == 0
            }
        }
    )*};
}

// The API uses signed numbers of 32 bits; the unsigned types here exclude negative ones.
integer_settings! {
    u16, 0, i64::from(u16::MAX);
    u32, 0, i64::from(i32::MAX);
    i32, i64::from(i32::MIN), i64::from(i32::MAX);
    i64, i64::MIN, i64::MAX;
}

impl Setting for f64 {
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        let value = node.as_f64();
        if value.is_none() {
            findings.wrong_type(at, "a number", node);
        }
        value
    }
}

impl Setting for GoDuration {
    const TAKES_NULL: bool = false;

    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        parsed(node, "a duration such as 1m30s", at, findings)
    }

    fn is_zero_node(node: &Value) -> bool {
        node.is_null()
            || node.as_str().and_then(|text| text.parse().ok()).is_some_and(Self::is_zero)
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        T::read(node, at, findings).map(Some)
    }

    fn assign(&mut self, path: &[&str], node: &Value, at: &At<'_>, findings: &mut Findings) {
        if T::is_zero_node(node) && node == "" {
            *self = None;
        } else if let Some(value) = self {
            value.assign(path, node, at, findings);
        } else if path.is_empty() {
            *self = T::read(node, at, findings);
        } else {
            findings.unknown(at);
        }
    }

    fn is_zero_node(node: &Value) -> bool {
        T::is_zero_node(node)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        let Value::Array(nodes) = node else {
            findings.wrong_type(at, "a list", node);
            return None;
        };
        let items = nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| T::read(node, &at.index(index), findings))
            .collect();
        Some(items)
    }

    fn is_zero_node(node: &Value) -> bool {
        node.is_null()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K: Key, T: Setting> Setting for BTreeMap<K, T> {
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        let mut map = Self::new();
        for (text, node) in object(node, at, findings)? {
            let at = at.field(text);
            match K::from_key(text) {
                Ok(key) => {
                    let null = T::of_null().filter(|_| node.is_null());
                    if let Some(value) = null.or_else(|| T::read(node, &at, findings)) {
                        map.insert(key, value);
                    }
                }
                Err(error) => findings.error(at, error),
            }
        }
        Some(map)
    }

    fn is_zero_node(node: &Value) -> bool {
        node.is_null()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}
