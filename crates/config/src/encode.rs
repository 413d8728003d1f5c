//! Back from a configuration to a document.

use serde_json::{Map, Value};

use crate::decode::{API_VERSION, KIND};
use crate::fields::KubeletConfiguration;

impl KubeletConfiguration {
    /// The document that gives this very configuration when it is loaded.
    pub fn to_document(&self) -> Value {
        let mut document = Map::from_iter([
            ("apiVersion".to_owned(), API_VERSION.into()),
            ("kind".to_owned(), KIND.into()),
        ]);
        if let Value::Object(fields) = self.to_value() {
            document.extend(fields);
        }
        Value::Object(document)
    }

    /// The fields alone.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a configuration has text keys and finite numbers")
    }
}
