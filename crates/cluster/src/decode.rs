//! API objects, reduced to the needed fields. All other fields are skipped during decoding.

pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod pod;
pub(crate) mod storage;

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::cluster::Uid;
use serde::{Deserialize, Deserializer};

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    pub(crate) generation: i64,
    #[serde(deserialize_with = "second")]
    pub(crate) creation_timestamp: Option<i64>,
    #[serde(deserialize_with = "second")]
    pub(crate) deletion_timestamp: Option<i64>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow, deserialize_with = "pairs")]
    pub(crate) labels: Pairs<'a>,
    #[serde(borrow, deserialize_with = "pairs")]
    pub(crate) annotations: Pairs<'a>,
    pub(crate) finalizers: Vec<serde::de::IgnoredAny>,
}

impl Metadata<'_> {
    pub(crate) fn uid(&self) -> Uid {
        Uid::from(&*self.uid)
    }

    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity {
            name: Cow::Borrowed(&self.name),
            namespace: Cow::Borrowed(&self.namespace),
            uid: Cow::Borrowed(&self.uid),
            resource_version: Cow::Borrowed(&self.resource_version),
        }
    }
}

/// The identity and version of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Identity<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    /// The identity of a fully decoded object.
    pub(crate) fn of(metadata: &'a ObjectMeta) -> Self {
        let text = |field: &'a Option<String>| Cow::Borrowed(field.as_deref().unwrap_or_default());
        Self {
            name: text(&metadata.name),
            namespace: text(&metadata.namespace),
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
        }
    }
}

/// Labels or annotations.
pub(crate) type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The value of a key.
pub(crate) fn value<'a>(pairs: &'a Pairs<'_>, key: &str) -> Option<&'a str> {
    pairs.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
}

/// Decodes a map as a list, borrowed where possible.
fn pairs<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<'a>, D::Error> {
    struct InOrder;
    /// Borrows a text that has no escapes.
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    impl<'de> serde::de::Visitor<'de> for InOrder {
        type Value = Pairs<'de>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of texts")
        }

        fn visit_unit<E>(self) -> Result<Pairs<'de>, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Pairs<'de>, A::Error> {
            let mut pairs = Vec::new();
            while let Some((Text(key), Text(value))) = map.next_entry()? {
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_any(InOrder)
}

/// Decodes a time, rounded down to seconds.
pub(crate) fn second<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    /// Borrows a text without escapes; times have none.
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let text = Option::<Text<'de>>::deserialize(deserializer)?;
    Ok(text.and_then(|Text(text)| text.parse::<Timestamp>().ok()).map(Timestamp::as_second))
}
