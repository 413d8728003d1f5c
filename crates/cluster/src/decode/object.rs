//! Secrets and config maps.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::cluster::Version;
use model::objects::{DataObject, ObjectKind};
use serde::Deserialize;

use super::{Metadata, Pairs};

/// A secret or a config map.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Object<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(borrow, rename = "type")]
    secret_type: Cow<'a, str>,
    immutable: Option<bool>,
    #[serde(borrow, deserialize_with = "super::pairs")]
    data: Pairs<'a>,
    #[serde(borrow, deserialize_with = "super::pairs")]
    binary_data: Pairs<'a>,
}

impl Object<'_> {
    /// The stored fields. The server validates objects, so values with an invalid encoding are treated as absent.
    pub(crate) fn record(self, kind: ObjectKind) -> DataObject {
        let data = match kind {
            ObjectKind::Secret => decoded(self.data),
            ObjectKind::ConfigMap => {
                let text = |(key, value): (Cow<'_, str>, Cow<'_, str>)| {
                    (key.into(), value.into_owned().into_bytes().into())
                };
                self.data.into_iter().map(text).collect()
            }
        };
        DataObject {
            uid: self.metadata.uid(),
            version: Version::from(&*self.metadata.resource_version),
            secret_type: self.secret_type.into(),
            is_immutable: self.immutable == Some(true),
            data,
            binary_data: decoded(self.binary_data),
        }
    }
}

fn decoded(pairs: Pairs<'_>) -> BTreeMap<Box<str>, Box<[u8]>> {
    let bytes = |(key, value): (Cow<'_, str>, Cow<'_, str>)| {
        Some((key.into(), STANDARD.decode(value.as_bytes()).ok()?.into()))
    };
    pairs.into_iter().filter_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: ObjectKind, json: &str) -> DataObject {
        serde_json::from_str::<Object<'_>>(json).unwrap().record(kind)
    }

    #[test]
    fn secrets_are_base64_and_config_maps_are_text() {
        let secret = record(
            ObjectKind::Secret,
            r#"{"metadata":{"resourceVersion":"7"},"type":"Opaque","immutable":true,"data":{"a":"aGk=","b":""}}"#,
        );
        assert_eq!(secret.version, Version::from(7));
        assert!(secret.is_immutable);
        assert_eq!((&*secret.data["a"], &*secret.data["b"]), (&b"hi"[..], &b""[..]));
        let map = record(
            ObjectKind::ConfigMap,
            r#"{"metadata":{},"data":{"a":"aGk=\n"},"binaryData":{"b":"AP8="}}"#,
        );
        assert!(!map.is_immutable);
        assert_eq!(&*map.data["a"], b"aGk=\n");
        assert_eq!(&*map.binary_data["b"], [0, 255]);
        assert_eq!(record(ObjectKind::Secret, r#"{"data":null}"#).data.len(), 0);
    }
}
