//! The files of volumes that hold config maps, secrets, fields of the pod and tokens.
//!
//! [`needs`] returns the objects of a volume, [`payload`] makes its files from their content.

mod downward;
mod error;
mod keys;
mod owner;
mod paths;
mod projected;
#[cfg(test)]
mod tests;
mod trust_bundle;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Volume};
use model::objects::{DataObject, ObjectKey, ServiceAccountToken, TokenRequest, TrustBundleRecord};
use model::pod_certificates::{CertificateSource, Credentials};
use model::ports::objects::ObjectError;
use model::volume::{Payload, PayloadFile};
use podspec::resources::Amounts;
use podspec::view;

pub use error::PayloadError;
pub use owner::fs_user;
pub use trust_bundle::TrustBundleError;

use keys::Keys;

/// The default mode of files.
const DEFAULT_MODE: i32 = 0o644;
/// The bits of a mode that a volume can set.
const MODE_BITS: u32 = 0o777;

/// Objects by key, as they were read.
pub type Objects = BTreeMap<ObjectKey, Result<Arc<DataObject>, ObjectError>>;
/// Tokens by request, as they were received, or the text of the error.
pub type Tokens = BTreeMap<TokenRequest, Result<Arc<ServiceAccountToken>, Arc<str>>>;

/// All trust bundles of the cluster, or the text of the error.
pub type TrustBundles = Result<Arc<[TrustBundleRecord]>, Arc<str>>;

/// Certificates by their sources, as they were issued, or the text of the error.
pub type Certificates = BTreeMap<CertificateSource, Result<Credentials, Arc<str>>>;

/// The inputs of the files of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The objects of [`Needs::objects`].
    pub objects: &'a Objects,
    /// The tokens of [`Needs::tokens`].
    pub tokens: &'a Tokens,
    /// The trust bundles, if [`Needs::trust_bundles`].
    pub trust_bundles: &'a TrustBundles,
    /// The certificates of [`Needs::certificates`].
    pub certificates: &'a Certificates,
    /// The allocatable resources of the node: the limits of containers without limits.
    pub allocatable: &'a Amounts,
}

/// The objects that a volume needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Config maps and secrets.
    pub objects: Vec<ObjectKey>,
    /// Tokens of the pod's service account.
    pub tokens: Vec<TokenRequest>,
    /// The trust bundles of the cluster.
    pub trust_bundles: bool,
    /// Certificates of the pod.
    pub certificates: Vec<CertificateSource>,
}

/// The objects that a volume needs; none for a volume whose files the agent does not write.
pub fn needs(pod: &Pod, volume: &Volume) -> Needs {
    let namespace = &view::pod_name(pod).namespace;
    let mut needs = Needs::default();
    if let Some(map) = &volume.config_map {
        needs.objects.push(ObjectKey::config_map(namespace, &map.name));
    } else if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        needs.objects.push(ObjectKey::secret(namespace, name));
    } else if let Some(projected) = &volume.projected {
        needs = projected::needs(pod, &volume.name, projected);
    }
    needs.objects.retain(|key| !key.name.is_empty());
    needs
}

/// The files of a volume.
pub fn payload(volume: &Volume, sources: &Sources<'_>) -> Result<Payload, PayloadError> {
    let namespace = &view::pod_name(sources.pod).namespace;
    let files = if let Some(map) = &volume.config_map {
        let keys = Keys {
            object: ObjectKey::config_map(namespace, &map.name),
            items: map.items.as_deref().unwrap_or_default(),
            default_mode: map.default_mode.unwrap_or(DEFAULT_MODE),
            is_optional: map.optional == Some(true),
        };
        keys.files(sources.objects)?
    } else if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let keys = Keys {
            object: ObjectKey::secret(namespace, name),
            items: secret.items.as_deref().unwrap_or_default(),
            default_mode: secret.default_mode.unwrap_or(DEFAULT_MODE),
            is_optional: secret.optional == Some(true),
        };
        keys.files(sources.objects)?
    } else if let Some(fields) = &volume.downward_api {
        let items = fields.items.as_deref().unwrap_or_default();
        let default_mode = fields.default_mode.unwrap_or(DEFAULT_MODE);
        downward::files(items, default_mode, sources)?
    } else if let Some(projected) = &volume.projected {
        projected::files(&volume.name, projected, sources)?
    } else {
        return Err(PayloadError::NoContent(volume.name.clone()));
    };
    paths::checked(files)
}

/// Files in the order in which they were made: of those with the same path the last one stays.
type Files = Vec<(String, PayloadFile)>;

fn file(content: &[u8], mode: i32) -> PayloadFile {
    PayloadFile { content: content.into(), mode: mode.cast_unsigned() & MODE_BITS, owner: None }
}
