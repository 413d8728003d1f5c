//! The API server: what is followed there, and what is written.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::cluster::{
    AccessRequest, ClusterEvent, FailedStatus, Lease, LeaseName, LeaseRecord, NodeRecord,
    PodRecord, PodRemoved, PodTarget, Uid, User, Version,
};
use crate::verdict::Verdict;

/// Why the API server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no such object.
    #[error("not found")]
    NotFound,
    /// The object is another one, or another version, than was meant; or it exists already.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The server has too much to do.
    #[error("the API server is overloaded")]
    Throttled {
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The server refuses.
    #[error("refused with {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What the server says.
        message: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("the API server cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The server does not answer.
    #[error("no answer within {0:?}")]
    TooSlow(Duration),
    /// The answer makes no sense.
    #[error("the answer cannot be understood")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

impl ApiError {
    /// In one word, for metrics.
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

    /// How long the server wants to be left alone, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            _ => None,
        }
    }

    /// Whether a review is tried again after this error: the server cannot be reached, has too much to do, or failed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TooSlow(_) | Self::Throttled { .. } => true,
            Self::Refused { code, .. } => *code >= 500,
            Self::NotFound | Self::Conflict(_) | Self::Unreadable(_) => false,
        }
    }

    /// Whether the server is away or wants to be left alone, so that another call would fare no better.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TooSlow(_) | Self::Throttled { .. } => true,
            // So says whoever stands before a server that is away; 500 may be said of one object alone.
            Self::Refused { code, .. } => (502..=504).contains(code),
            Self::NotFound | Self::Conflict(_) | Self::Unreadable(_) => false,
        }
    }
}

/// Something heard of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T, K> {
    /// All of them are told from the beginning. What is known stays until [`Change::Complete`].
    Restarted,
    /// An object is there, as told.
    Applied(T),
    /// An object is gone.
    Gone(K),
    /// An object is there, but cannot be understood. What is known of it stays.
    Unread(K),
    /// All were told; what was not is gone.
    Complete,
}

/// Takes what is heard, at once and without waiting.
pub trait Sink<T, K>: Debug + Send + Sync {
    /// Takes one thing.
    fn hear(&self, change: Change<T, K>);
}

/// Follows the pods of the whole cluster.
#[async_trait]
pub trait PodFeed: Debug + Send + Sync {
    /// Tells all pods and then every change. Never returns: what breaks is begun again after a while.
    async fn follow_pods(&self, sink: &dyn Sink<PodRecord, Uid>);
}

/// Follows the nodes of the cluster.
#[async_trait]
pub trait Nodes: Debug + Send + Sync {
    /// Tells all nodes and then every change, as [`PodFeed::follow_pods`] does; gone ones by name.
    async fn follow_nodes(&self, sink: &dyn Sink<NodeRecord, String>);

    /// Asks the server itself for a node; `None` when it does not exist.
    async fn node(&self, name: &str) -> Result<Option<NodeRecord>, ApiError>;
}

/// Writes pods.
#[async_trait]
pub trait PodWrites: Debug + Send + Sync {
    /// Sets the phase to `Failed`, of the pod with this uid alone; its version afterwards.
    async fn fail_pod(&self, pod: &PodTarget, status: &FailedStatus) -> Result<Version, ApiError>;

    /// Deletes a pod at once, if it still has this uid and version.
    async fn remove_pod(&self, pod: &PodTarget, verdict: &Verdict) -> Result<PodRemoved, ApiError>;
}

/// Leases, for elections.
#[async_trait]
pub trait Leases: Debug + Send + Sync {
    /// The lease of that name.
    async fn lease(&self, name: &LeaseName) -> Result<Option<Lease>, ApiError>;

    /// Makes it; a conflict when it exists.
    async fn create_lease(&self, name: &LeaseName, record: &LeaseRecord)
    -> Result<Lease, ApiError>;

    /// Replaces what it says; a conflict when it is not at this version any more.
    async fn update_lease(
        &self,
        name: &LeaseName,
        from: &Lease,
        record: &LeaseRecord,
    ) -> Result<Lease, ApiError>;
}

/// Events that everybody in the cluster can see.
#[async_trait]
pub trait ClusterEvents: Debug + Send + Sync {
    /// Writes one.
    async fn write_event(&self, event: &ClusterEvent) -> Result<(), ApiError>;

    /// Says of one that was written how often it was by now, when last, and what it says; not found
    /// when the server has forgotten it.
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
    fn a_server_is_away_when_no_other_call_would_fare_better() {
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
