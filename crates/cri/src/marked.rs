//! Entries of lists of which nothing but id and state is read: enough to see that nothing changed.

use prost::Message;
use prost::bytes::Bytes;
use proto::runtime_v1 as cri;

/// `ListPodSandboxResponse`, or a part of it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MarkedSandboxes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<MarkedSandbox>,
}

/// `PodSandbox`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MarkedSandbox {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) id: Bytes,
    #[prost(enumeration = "cri::PodSandboxState", tag = "3")]
    state: i32,
}

/// `ListContainersResponse`, or a part of it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MarkedContainers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<MarkedContainer>,
}

/// `Container`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MarkedContainer {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) id: Bytes,
    #[prost(enumeration = "cri::ContainerState", tag = "6")]
    state: i32,
}
