//! Decodes one JSON value from any parser, within limits.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::DecodeError;
use super::document::{MAX_DEPTH, MAX_TEXT_BYTES};

/// The size of the decoded value so far. The parsers have their own limits; these count their
/// output, including repetitions.
#[derive(Debug)]
pub(super) struct Limits {
    max_nodes: usize,
    nodes: Cell<usize>,
    text_bytes: Cell<usize>,
    /// The exceeded limit.
    hit: Cell<Option<&'static str>>,
}

impl Limits {
    pub(super) fn new(max_nodes: usize) -> Self {
        Self {
            max_nodes,
            nodes: Cell::default(),
            text_bytes: Cell::default(),
            hit: Cell::default(),
        }
    }

    fn count_node<E: serde::de::Error>(&self, depth: usize) -> Result<(), E> {
        self.nodes.set(self.nodes.get() + 1);
        self.check(depth)
    }

    fn count_text<E: serde::de::Error>(&self, text: &str) -> Result<(), E> {
        self.text_bytes.set(self.text_bytes.get() + text.len());
        self.check(0)
    }

    fn check<E: serde::de::Error>(&self, depth: usize) -> Result<(), E> {
        let hit = if depth > MAX_DEPTH {
            "too deeply nested"
        } else if self.nodes.get() > self.max_nodes {
            "too many values"
        } else if self.text_bytes.get() > MAX_TEXT_BYTES {
            "too much text"
        } else {
            return Ok(());
        };
        self.hit.set(Some(hit));
        Err(E::custom(hit))
    }

    pub(super) fn exceeded(&self, line: u64, column: u64) -> Option<DecodeError> {
        self.hit.get().map(|problem| DecodeError::TooComplex {
            line,
            column,
            problem: problem.to_owned(),
        })
    }
}

/// Decodes one value. Unlike `serde_json::Value` it rejects duplicate keys, and converts
/// keys that are not text to text.
#[derive(Clone, Copy)]
pub(super) struct NodeSeed<'a> {
    limits: &'a Limits,
    depth: usize,
}

impl<'a> NodeSeed<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self { limits, depth: 0 }
    }

    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.limits.count_node(self.depth)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can express")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        /// Up to this number, a double represents every integer exactly.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() <= EXACT {
            // `3.0` is accepted as the integer `3`.
            #[expect(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
            return Ok(Value::from(value as i64));
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.limits.count_text(text)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let seed = self.below();
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(seed)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let seed = self.below();
        let mut values = Map::new();
        while let Some(key) = map.next_key_seed(seed)? {
            let key = match key {
                Value::String(key) => key,
                Value::Bool(_) | Value::Number(_) => key.to_string(),
                _ => return Err(A::Error::custom("key of a map must be a plain value")),
            };
            if values.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate key {key:?}")));
            }
            let value = map.next_value_seed(seed)?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}
