//! The messages of containerd's API that tests need, with the fields that they read.

use std::collections::BTreeMap;

/// A request for a list of everything: without a filter, `ListContainersRequest`, `ListTasksRequest` and
/// `ListImagesRequest` are all empty.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetContainerResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) container: Option<Container>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) containers: Vec<Container>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) labels: BTreeMap<String, String>,
    /// The OCI runtime specification, as JSON.
    #[prost(message, optional, tag = "5")]
    pub(super) spec: Option<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Any {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListTasksResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) tasks: Vec<Process>,
}

/// The first process of a container; processes that were started in it later are not listed.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Process {
    /// The id of the container.
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(uint32, tag = "3")]
    pub(super) pid: u32,
    #[prost(enumeration = "Status", tag = "4")]
    pub(super) status: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Status {
    Unknown = 0,
    Created = 1,
    Running = 2,
    Stopped = 3,
    Paused = 4,
    Pausing = 5,
}

impl Status {
    /// Its name in containerd's API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Stopped => "STOPPED",
            Self::Paused => "PAUSED",
            Self::Pausing => "PAUSING",
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) images: Vec<Image>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Image {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}
