//! The API server ports.
//!
//! Inputs: a kubeconfig or the service account of the pod, and calls through the ports of `model`. Outputs:
//! slim records of objects and changes, and responses.
//!
//! Invariants:
//! - one HTTP/2 connection serves all calls, or as few as many watches need; a dead connection is detected
//!   within seconds; calls that keep a node alive wait neither for watches nor for other calls;
//! - only the fields of records are stored, and at most one object, or one page of a list, is in memory at a
//!   time;
//! - a feed never ends: it resumes after a break, or lists again when the server has forgotten its version;
//! - ordinary calls are rate limited; leases do not wait for the limit, and events and reviews have their own
//!   limits.

mod access;
mod bucket;
mod call;
mod client_identity;
mod connect;
mod connections;
mod counted;
mod decode;
mod events;
mod follow;
mod leases;
mod lines;
mod names;
mod node_object;
mod nodes;
mod objects;
mod plugin;
mod pod_api;
mod pod_certificates;
mod pods;
mod proxy;
mod proxy_environment;
mod reachability;
mod reviews;
mod runtime_classes;
mod services;
mod storage;
mod token_file;
mod trust_bundles;
mod urls;

use std::sync::Arc;

use model::ports::cluster::ApiError;
use prometheus::Registry;

pub use access::{NEEDED, Permission};
pub use blocking::Resolver;
pub use connect::{ConnectError, Connection};
pub use decode::pod::Exclusion;
pub use proxy::{ProxyError, ProxyVariables};

use self::bucket::Bucket;
use self::call::{Call, Caller};
use self::counted::Counted;

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls per second on average; zero or less for no limit.
    pub per_second: f64,
    /// The burst.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self { per_second: 0.0, burst: 0 };
}

/// The rate limits of calls and events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// All calls except events and calls that cannot wait.
    pub calls: Rate,
    /// Events.
    pub events: Rate,
}

impl From<Rate> for Rates {
    /// Events are not limited.
    fn from(calls: Rate) -> Self {
        Self { calls, events: Rate::UNLIMITED }
    }
}

/// An API server.
#[derive(Debug, Clone)]
pub struct Cluster {
    caller: Arc<Caller>,
    exclusion: Arc<Exclusion>,
    /// The source of events.
    source: Arc<Source>,
}

/// The source of events.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The name of the program.
    pub component: &'static str,
    /// The host of the program.
    pub host: String,
}

impl Cluster {
    /// The server of a connection.
    pub fn new(
        connection: Connection,
        rates: impl Into<Rates>,
        exclusion: Exclusion,
        source: Source,
    ) -> Self {
        let Rates { calls, events } = rates.into();
        let (bucket, events) = (Bucket::new(calls), Bucket::new(events));
        Self {
            caller: Arc::new(Caller::new(connection, bucket, events)),
            exclusion: Arc::new(exclusion),
            source: Arc::new(source),
        }
    }

    /// Counts calls from now on, in the registry. A second call changes nothing.
    pub fn count_calls(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        if self.caller.counted.get().is_none() {
            let counted = Counted::new(registry, self.address())?;
            drop(self.caller.counted.set(counted));
        }
        Ok(())
    }

    /// The address of the server.
    pub fn address(&self) -> &str {
        self.caller.connection.address()
    }

    /// Checks the health of the server.
    pub async fn is_healthy(&self) -> Result<(), ApiError> {
        self.caller.read(Call::get("/healthz".to_owned()).in_own_lane()).await.map(drop)
    }
}
