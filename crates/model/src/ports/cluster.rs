//! The API server: watches and writes.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::cluster::{
    AccessRequest, ClusterEvent, FailedStatus, Lease, LeaseName, LeaseRecord, NodeRecord,
    PodRecord, PodRemoved, PodTarget, Uid, User, Version,
};
use crate::verdict::Verdict;

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("not found")]
    NotFound,
    /// The object has another UID or version than expected, or it exists already.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The server is overloaded.
    #[error("the API server is overloaded")]
    Throttled {
        /// When to retry, if the server says.
        retry_after: Option<Duration>,
    },
    /// The server refuses the request.
    #[error("refused with {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The message of the server.
        message: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("the API server cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The server does not respond in time.
    #[error("no response within {0:?}")]
    TooSlow(Duration),
    /// The response cannot be decoded.
    #[error("cannot decode the response")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

impl ApiError {
    /// The label for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::Conflict(_) => "conflict",
            Self::Throttled { .. } => "throttled",
            Self::Refused { .. } => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::TooSlow(_) => "too-slow",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// When to retry, if the server says.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            _ => None,
        }
    }

    /// Whether a review is retried after this error: the server cannot be reached, is overloaded, or failed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TooSlow(_) | Self::Throttled { .. } => true,
            Self::Refused { code, .. } => *code >= 500,
            Self::NotFound | Self::Conflict(_) | Self::Unreadable(_) => false,
        }
    }

    /// Whether the server is unavailable or overloaded, so that another call would fail too.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TooSlow(_) | Self::Throttled { .. } => true,
            // A proxy in front of an unavailable server returns these; 500 may concern only one object.
            Self::Refused { code, .. } => (502..=504).contains(code),
            Self::NotFound | Self::Conflict(_) | Self::Unreadable(_) => false,
        }
    }
}

/// A change of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T, K> {
    /// A list begins. Known objects stay until [`Change::Complete`].
    Restarted,
    /// An object was listed, added or changed.
    Applied(T),
    /// An object was deleted.
    Gone(K),
    /// An object exists, but cannot be decoded. Its known state stays.
    Unread(K),
    /// The list is complete; objects that were not in it are deleted.
    Complete,
}

/// Receives changes, without waiting.
pub trait Sink<T, K>: Debug + Send + Sync {
    /// Takes one change.
    fn receive(&self, change: Change<T, K>);
}

/// Watches the pods of the whole cluster.
#[async_trait]
pub trait PodFeed: Debug + Send + Sync {
    /// Sends all pods and then every change. Never returns: a broken watch is restarted after a back-off.
    async fn follow_pods(&self, sink: &dyn Sink<PodRecord, Uid>);
}

/// Watches the nodes of the cluster.
#[async_trait]
pub trait Nodes: Debug + Send + Sync {
    /// Sends all nodes and then every change, as [`PodFeed::follow_pods`] does; deleted ones by name.
    async fn follow_nodes(&self, sink: &dyn Sink<NodeRecord, String>);

    /// Gets a node from the server; `None` if it does not exist.
    async fn node(&self, name: &str) -> Result<Option<NodeRecord>, ApiError>;
}

/// Writes pods.
#[async_trait]
pub trait PodWrites: Debug + Send + Sync {
    /// Sets the phase of the pod with this UID to `Failed`. Returns its new version.
    async fn fail_pod(&self, pod: &PodTarget, status: &FailedStatus) -> Result<Version, ApiError>;

    /// Deletes a pod without a grace period, if it still has this UID and version.
    async fn remove_pod(&self, pod: &PodTarget, verdict: &Verdict) -> Result<PodRemoved, ApiError>;
}

/// Leases, for elections.
#[async_trait]
pub trait Leases: Debug + Send + Sync {
    /// Gets a lease.
    async fn lease(&self, name: &LeaseName) -> Result<Option<Lease>, ApiError>;

    /// Creates it; a conflict if it exists.
    async fn create_lease(&self, name: &LeaseName, record: &LeaseRecord)
    -> Result<Lease, ApiError>;

    /// Replaces its content; a conflict if it has another version.
    async fn update_lease(
        &self,
        name: &LeaseName,
        from: &Lease,
        record: &LeaseRecord,
    ) -> Result<Lease, ApiError>;
}

/// Events of the API.
#[async_trait]
pub trait ClusterEvents: Debug + Send + Sync {
    /// Creates one.
    async fn write_event(&self, event: &ClusterEvent) -> Result<(), ApiError>;

    /// Updates count, last time and message of an event; not found
    /// if the server has expired it.
    async fn count_event(&self, event: &ClusterEvent) -> Result<(), ApiError>;
}

/// Authentication and authorisation by the API server.
#[async_trait]
pub trait Reviews: Debug + Send + Sync {
    /// The user of a token (`TokenReview`); `None` if the token is not valid.
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError>;

    /// Whether a user is allowed to make a request (`SubjectAccessReview`).
    async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_unavailable_if_other_calls_would_fail_too() {
        let refused = |code| ApiError::Refused { code, message: String::new() };
        let rows = [
            (ApiError::Unreachable("no route".into()), true),
            (ApiError::TooSlow(Duration::from_secs(30)), true),
            (ApiError::Throttled { retry_after: None }, true),
            (refused(501), false),
            (refused(502), true),
            (refused(503), true),
            (refused(504), true),
            (refused(500), false),
            (refused(403), false),
            (ApiError::NotFound, false),
            (ApiError::Conflict(String::new()), false),
            (ApiError::Unreadable("no JSON".into()), false),
        ];
        for (error, is_away) in rows {
            assert_eq!(error.is_away(), is_away, "{error:?}");
        }
    }
}
