//! Pull records: which credentials pulled which image. In upstream's format, so that either agent understands the
//! records of the other.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::image_access::{AccessObject, CredentialSource, PullCredential};
use serde::{Deserialize, Serialize};

use super::credential_hash::credential_hash;
use super::hex::sha256_hex;

/// The version in which records are written.
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// An older one with the same fields, which is read.
const OLD_API_VERSION: &str = "kubelet.config.k8s.io/v1alpha1";
/// As many secrets of an image name are kept when a secret that changed is added.
const MOST_SECRETS: usize = 100;

/// The name of the file of an intent, by the image, or of a record, by the runtime's reference.
pub fn file_name(of: &str) -> String {
    format!("sha256-{}", sha256_hex(of.as_bytes()))
}

/// Whether a file of this name may be an intent or a record.
pub fn is_file_name(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix("sha256-").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_digit))
}

/// Why a file is not an intent or record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not JSON, or lacks a field.
    #[error("invalid JSON")]
    Json(#[source] serde_json::Error),
    /// It is of another kind or version.
    #[error("found {api_version} {kind}")]
    Kind {
        /// Its version.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// It is about something else.
    #[error("it is about {0:?}")]
    OtherName(String),
}

/// A pull that was begun and is not known to have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Intent {
    kind: String,
    api_version: String,
    #[serde(default)]
    image: String,
}

/// An image that the agent has pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PulledRecord {
    kind: String,
    api_version: String,
    /// When the record last changed.
    #[serde(with = "whole_seconds")]
    pub last_updated_time: Timestamp,
    /// The runtime's reference.
    #[serde(default)]
    pub image_ref: String,
    /// Who may use the image, by its name without tag and digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credential_mapping: BTreeMap<String, RecordedAccess>,
}

/// Which pods may use an image under one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAccess {
    /// Secrets that pulled it.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_secrets: Vec<RecordedSecret>,
    /// The service accounts for which credential provider plugins returned the credentials of the
    /// pull.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_service_accounts: Vec<RecordedObject>,
    /// Whether every pod of the node may use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_pods_accessible: bool,
}

/// A secret, and the hash of the credential in it that pulled the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedSecret {
    /// The secret.
    #[serde(flatten)]
    pub object: RecordedObject,
    /// The hash; empty if it is not known.
    #[serde(default)]
    pub credential_hash: String,
}

/// Namespace, name and UID of an object. The order is that of upstream's JSON; it is sorted by [`sort_key`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedObject {
    uid: String,
    namespace: String,
    name: String,
}

impl From<&AccessObject> for RecordedObject {
    fn from(object: &AccessObject) -> Self {
        let AccessObject { namespace, name, uid } = object.clone();
        Self { uid, namespace, name }
    }
}

fn sort_key(object: &RecordedObject) -> [&String; 3] {
    [&object.namespace, &object.name, &object.uid]
}

/// Go writes an empty list as `null`.
fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: serde::Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Records have times in whole seconds.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Times as `metav1.Time` writes them.
mod whole_seconds {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&super::whole_second(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        text.map_or(Ok(Timestamp::UNIX_EPOCH), |text| text.parse().map_err(D::Error::custom))
    }
}

fn check_kind(api_version: &str, kind: &str, expected: &str) -> Result<bool, RecordError> {
    let is_old = api_version == OLD_API_VERSION;
    if kind == expected && (is_old || api_version == API_VERSION) {
        return Ok(is_old);
    }
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    Err(RecordError::Kind { api_version, kind })
}

fn lines(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("records have string keys");
    text.push(b'\n');
    text
}

/// The content of the file of an intent.
pub fn encode_intent(image: &str) -> Vec<u8> {
    let (kind, api_version) = ("ImagePullIntent".to_owned(), API_VERSION.to_owned());
    lines(&Intent { kind, api_version, image: image.to_owned() })
}

/// The image of an intent in a file of this name.
pub fn decode_intent(name: &str, content: &[u8]) -> Result<String, RecordError> {
    let intent: Intent = serde_json::from_slice(content).map_err(RecordError::Json)?;
    check_kind(&intent.api_version, &intent.kind, "ImagePullIntent")?;
    if file_name(&intent.image) == name {
        Ok(intent.image)
    } else {
        Err(RecordError::OtherName(intent.image))
    }
}

/// A record as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedRecord {
    /// The record, in the version that is written now.
    pub record: PulledRecord,
    /// Whether the file has an older version.
    pub is_old: bool,
}

impl PulledRecord {
    /// The record of an image that the agent has pulled; no pod may use it yet.
    pub fn new(image_ref: &str, now: Timestamp) -> Self {
        Self {
            kind: "ImagePulledRecord".to_owned(),
            api_version: API_VERSION.to_owned(),
            last_updated_time: whole_second(now),
            image_ref: image_ref.to_owned(),
            credential_mapping: BTreeMap::new(),
        }
    }

    /// The content of its file.
    pub fn encode(&self) -> Vec<u8> {
        lines(self)
    }

    /// The record in a file of this name.
    pub fn decode(name: &str, content: &[u8]) -> Result<DecodedRecord, RecordError> {
        let mut record: Self = serde_json::from_slice(content).map_err(RecordError::Json)?;
        let is_old = check_kind(&record.api_version, &record.kind, "ImagePulledRecord")?;
        if file_name(&record.image_ref) != name {
            return Err(RecordError::OtherName(record.image_ref));
        }
        API_VERSION.clone_into(&mut record.api_version);
        Ok(DecodedRecord { record, is_old })
    }

    /// Whether the record has certainly not changed since a time. False if that cannot be decided from its time.
    pub fn is_older_than(&self, moment: Timestamp) -> bool {
        self.last_updated_time < whole_second(moment)
    }

    /// Adds access under a name without tag and digest. Returns whether the record has changed.
    pub fn merge(&mut self, repository: &str, added: &RecordedAccess, now: Timestamp) -> bool {
        if added.is_empty() {
            return false;
        }
        let access = self.credential_mapping.entry(repository.to_owned()).or_default();
        let is_changed = access.merge(added);
        if is_changed {
            self.last_updated_time = whole_second(now);
        }
        is_changed
    }
}

impl RecordedAccess {
    /// The access that a pull with this credential proves; without a credential, the pull was
    /// anonymous.
    pub fn of_pull(with: Option<&PullCredential>) -> Self {
        let Some(PullCredential { auth, source }) = with else { return Self::of_node() };
        match source {
            CredentialSource::Node => Self::of_node(),
            CredentialSource::Secret(secret) => {
                let credential_hash = credential_hash(auth);
                let secret = RecordedSecret { object: secret.into(), credential_hash };
                Self { kubernetes_secrets: vec![secret], ..Self::default() }
            }
            CredentialSource::ServiceAccount(account) => {
                Self { kubernetes_service_accounts: vec![account.into()], ..Self::default() }
            }
        }
    }

    fn of_node() -> Self {
        Self { node_pods_accessible: true, ..Self::default() }
    }

    /// Whether no pod has access.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a secret that changed since it was recorded can be added.
    pub fn has_room(&self) -> bool {
        self.kubernetes_secrets.len() < MOST_SECRETS
    }

    /// Returns whether anything has changed. Once every pod may use the image, single ones no longer matter.
    fn merge(&mut self, added: &Self) -> bool {
        let before = self.clone();
        if added.node_pods_accessible {
            *self = Self::of_node();
        } else if !self.node_pods_accessible {
            for secret in &added.kubernetes_secrets {
                self.kubernetes_secrets.retain(|known| known.object != secret.object);
                self.kubernetes_secrets.push(secret.clone());
            }
            self.kubernetes_secrets.sort_by(|a, b| sort_key(&a.object).cmp(&sort_key(&b.object)));
            for account in &added.kubernetes_service_accounts {
                if !self.kubernetes_service_accounts.contains(account) {
                    self.kubernetes_service_accounts.push(account.clone());
                }
            }
            self.kubernetes_service_accounts.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        }
        *self != before
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
