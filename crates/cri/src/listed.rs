//! List entries, reduced to the needed fields.
//!
//! There may be very many of them with mostly equal content: other fields are not decoded, and equal texts are
//! shared.

use std::collections::HashSet;
use std::sync::Arc;

use model::ids::{PodName, PodUid};
use model::labels;
use model::observed::{Container, Sandbox};
use model::ports::runtime::ImageUse;
use prost::Message;
use prost::bytes::Bytes;
use proto::runtime_v1 as cri;

use crate::from_cri;

/// `ListPodSandboxResponse`, or a part of it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedSandboxes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<ListedSandbox>,
}

/// `PodSandbox`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedSandbox {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(message, optional, tag = "2")]
    metadata: Option<SandboxMetadata>,
    #[prost(enumeration = "cri::PodSandboxState", tag = "3")]
    state: i32,
    #[prost(int64, tag = "4")]
    created_at: i64,
}

/// `PodSandboxMetadata`.
#[derive(Clone, PartialEq, Message)]
struct SandboxMetadata {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    namespace: Bytes,
    #[prost(uint32, tag = "4")]
    attempt: u32,
}

/// `ListContainersResponse`, or a part of it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedContainers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<ListedContainer>,
}

/// `Container`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedContainer {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    sandbox_id: Bytes,
    #[prost(message, optional, tag = "3")]
    metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    image: Option<ImageSpec>,
    #[prost(bytes = "bytes", tag = "5")]
    image_ref: Bytes,
    #[prost(enumeration = "cri::ContainerState", tag = "6")]
    state: i32,
    #[prost(int64, tag = "7")]
    created_at: i64,
    #[prost(message, repeated, tag = "8")]
    labels: Vec<Label>,
    #[prost(bytes = "bytes", tag = "10")]
    image_id: Bytes,
}

/// `ImageSpec`.
#[derive(Clone, PartialEq, Message)]
struct ImageSpec {
    #[prost(bytes = "bytes", tag = "19")]
    runtime_handler: Bytes,
}

/// `ContainerMetadata`.
#[derive(Clone, PartialEq, Message)]
struct ContainerMetadata {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(uint32, tag = "2")]
    attempt: u32,
}

/// An entry of a map.
#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The error for an entry with invalid UTF-8.
#[derive(Debug)]
pub(crate) struct NoText;

/// Texts shared by entries, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn shared(&mut self, bytes: &[u8]) -> Result<Arc<str>, NoText> {
        let text = text(bytes)?;
        if let Some(known) = self.0.get(text) {
            return Ok(Arc::clone(known));
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        Ok(new)
    }
}

fn text(bytes: &[u8]) -> Result<&str, NoText> {
    std::str::from_utf8(bytes).map_err(|_| NoText)
}

impl ListedSandbox {
    /// The sandbox; `None` without an id or name.
    pub(crate) fn sandbox(&self, texts: &mut Texts) -> Result<Option<Sandbox>, NoText> {
        let Some(metadata) = &self.metadata else { return Ok(None) };
        if self.id.is_empty() {
            return Ok(None);
        }
        Ok(Some(Sandbox {
            id: text(&self.id)?.into(),
            pod_uid: texts.shared(&metadata.uid)?.into(),
            pod: PodName::new(texts.shared(&metadata.namespace)?, texts.shared(&metadata.name)?),
            attempt: metadata.attempt,
            state: from_cri::sandbox_state(self.state()),
            created_at: from_cri::timestamp(self.created_at),
        }))
    }
}

impl ListedContainer {
    /// A label; empty if it is missing.
    fn label(&self, name: &str) -> &[u8] {
        let found = self.labels.iter().rfind(|label| label.name == name.as_bytes());
        found.map(|label| &label.value[..]).unwrap_or_default()
    }

    /// The container; `None` without an id or name. The CRI has no field for its pod, so the pod is in labels.
    pub(crate) fn container(&self, texts: &mut Texts) -> Result<Option<Container>, NoText> {
        let Some(metadata) = &self.metadata else { return Ok(None) };
        if self.id.is_empty() {
            return Ok(None);
        }
        let [uid, namespace, name] =
            [labels::POD_UID, labels::POD_NAMESPACE, labels::POD_NAME].map(|name| self.label(name));
        Ok(Some(Container {
            id: text(&self.id)?.into(),
            sandbox_id: texts.shared(&self.sandbox_id)?.into(),
            pod_uid: texts.shared(uid)?.into(),
            pod: PodName::new(texts.shared(namespace)?, texts.shared(name)?),
            name: texts.shared(&metadata.name)?,
            attempt: metadata.attempt,
            state: from_cri::container_state(self.state()),
            created_at: from_cri::timestamp(self.created_at),
            image_ref: texts.shared(&self.image_ref)?,
        }))
    }

    /// The image of the container; `None` if the runtime reports no image.
    pub(crate) fn image_use(&self, texts: &mut Texts) -> Result<Option<ImageUse>, NoText> {
        let image = if self.image_id.is_empty() { &self.image_ref } else { &self.image_id };
        if self.id.is_empty() || image.is_empty() {
            return Ok(None);
        }
        let pod_uid = PodUid::from(texts.shared(self.label(labels::POD_UID))?);
        let handler = self.image.as_ref().map(|image| &image.runtime_handler[..]);
        Ok(Some(ImageUse {
            container: text(&self.id)?.into(),
            pod_uid: Some(pod_uid).filter(|uid| !uid.is_empty()),
            image_id: texts.shared(image)?,
            runtime_handler: texts.shared(handler.unwrap_or_default())?,
        }))
    }
}
