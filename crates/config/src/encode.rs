//! Back from a configuration to a document.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode::{DocumentKind, KUBELET};
use crate::ferrolet::{FERROLET, FerroletConfiguration};
use crate::fields::KubeletConfiguration;

impl KubeletConfiguration {
    /// The document as the kubelet shows it: what is empty is left out.
    pub fn to_document(&self) -> Value {
        document(KUBELET, self)
    }

    /// The fields alone.
    pub(crate) fn to_value(&self) -> Value {
        value(self)
    }
}

impl FerroletConfiguration {
    /// The document that gives this very configuration when it is loaded.
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
    serde_json::to_value(fields).expect("a configuration has text keys and finite numbers")
}
