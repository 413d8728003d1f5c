//! Identifiers. Cheap to clone: they are shared, not copied.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

/// The ID of a container as statuses have it, such as `containerd://ID`, without the runtime.
pub fn without_runtime(id: &str) -> &str {
    id.split_once("://").map_or(id, |(_, id)| id)
}

id! {
    /// `metadata.uid` of a pod: identifies one incarnation of it.
    PodUid
}

impl PodUid {
    /// Whether it is empty: objects of the runtime that name no pod have an empty UID.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

id! {
    /// The runtime's id of a container.
    ContainerId
}
id! {
    /// The runtime's id of a pod sandbox.
    SandboxId
}

/// Namespace and name: what users call a pod. At most one live pod has them at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl PodName {
    /// A pod's name from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A container or a sandbox: the runtime has the same kind of IDs for both, and a change of
/// either is a change of the pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A container.
    Container(ContainerId),
    /// A pod sandbox.
    Sandbox(SandboxId),
}

impl ObjectId {
    /// The runtime's id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Container(id) => id.as_str(),
            Self::Sandbox(id) => id.as_str(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(id) => id.fmt(f),
            Self::Sandbox(id) => id.fmt(f),
        }
    }
}
