//! Encodes a configuration as a document.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode::{DocumentKind, KUBELET};
use crate::ferrolet::{FERROLET, FerroletConfiguration};
use crate::fields::KubeletConfiguration;
use crate::setting::integer;

impl KubeletConfiguration {
    /// The document as the kubelet shows it: empty values are omitted.
    pub fn to_document(&self) -> Value {
        document(KUBELET, self)
    }

    /// The document without its API version and kind.
    pub(crate) fn to_value(&self) -> Value {
        value(self)
    }
}

impl FerroletConfiguration {
    /// The document that loads to this configuration.
    pub fn to_document(&self) -> Value {
        document(FERROLET, self)
    }
}

fn document(kind: DocumentKind, fields: &impl Serialize) -> Value {
    let mut document = Map::from_iter([
        ("apiVersion".to_owned(), kind.api_version.into()),
        ("kind".to_owned(), kind.kind.into()),
    ]);
    if let Value::Object(fields) = value(fields) {
        document.extend(fields);
    }
    Value::Object(document)
}

fn value(fields: &impl Serialize) -> Value {
    let value =
        serde_json::to_value(fields).expect("a configuration has text keys and finite numbers");
    plain_numbers(value)
}

/// Writes whole numbers without a decimal point.
fn plain_numbers(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(name, at)| (name, plain_numbers(at))).collect())
        }
        Value::Number(number) if number.is_f64() => {
            integer(&Value::Number(number.clone())).map_or(Value::Number(number), Value::from)
        }
        other => other,
    }
}
