//! The documents of an OCI image layout, as far as these images need them.
//!
//! They are structures rather than loose JSON because the order of fields is part of the digest.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

pub(crate) const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The annotation with the full name, under which containerd imports an image.
pub(crate) const NAME_ANNOTATION: &str = "io.containerd.image.name";
/// Annotation that holds the tag, by the image layout's own rules.
pub(crate) const TAG_ANNOTATION: &str = "org.opencontainers.image.ref.name";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Layout {
    pub(crate) image_layout_version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    pub(crate) media_type: &'static str,
    pub(crate) manifests: Vec<Descriptor>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    pub(crate) media_type: &'static str,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: &'static str,
    pub(crate) digest: String,
    pub(crate) size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize, Clone)]
pub(crate) struct Platform {
    pub(crate) architecture: &'static str,
    pub(crate) os: &'static str,
}

#[derive(Serialize)]
pub(crate) struct ImageConfig<'a> {
    #[serde(flatten)]
    pub(crate) platform: Platform,
    pub(crate) config: Process<'a>,
    pub(crate) rootfs: RootFs,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Process<'a> {
    pub(crate) user: &'a str,
    pub(crate) env: [&'static str; 1],
    pub(crate) entrypoint: &'a [String],
    pub(crate) cmd: &'a [String],
    pub(crate) working_dir: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) diff_ids: Vec<String>,
}

impl Platform {
    /// The platform that this code was built for, which is also the workload's.
    pub(crate) fn own() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self { architecture, os: "linux" }
    }
}

impl Descriptor {
    pub(crate) fn of(blob: &[u8], media_type: &'static str) -> Self {
        Self {
            media_type,
            digest: format!("sha256:{}", hex(&Sha256::digest(blob))),
            size: blob.len(),
            platform: None,
            annotations: BTreeMap::new(),
        }
    }

    /// The blob's path in an image layout.
    pub(crate) fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

pub(crate) fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("text, numbers and lists always have a JSON form")
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}
