//! The ports of the API server, on the real one.
//!
//! Inputs: a kubeconfig or the service account of the pod one runs in, and calls through the ports of
//! `model`. Outputs: slim records of what is there and what changes, and the answers of the server.
//!
//! Invariants:
//! - all goes over one connection, or as few as very many watches need, by HTTP/2 where the server speaks it, and
//!   one that is dead is noticed within seconds; what keeps a node alive waits neither for watches nor for other calls;
//! - of objects only what the records need is kept, and no more than one object, or one page of a list,
//!   is in memory at a time;
//! - a feed never ends: it begins anew where it broke, or from a list when the server has forgotten that;
//! - ordinary calls keep to a rate; leases do not wait for it, and events and reviews have rates of their own.

mod access;
mod bucket;
mod call;
mod client_identity;
mod connect;
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
mod reach;
mod reviews;
mod runtime_classes;
mod services;
mod storage;
mod token_file;
mod trust_bundles;
mod urls;
mod ways;

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

/// How fast one may call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls in a second, on average; zero or less for any number.
    pub per_second: f64,
    /// How many at once after a quiet time.
    pub burst: u32,
}

impl Rate {
    /// As fast as one likes.
    pub const UNLIMITED: Self = Self { per_second: 0.0, burst: 0 };
}

/// How fast one may call, and write events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// All calls but events and those that cannot wait.
    pub calls: Rate,
    /// Events.
    pub events: Rate,
}

impl From<Rate> for Rates {
    /// Events are as many as there are.
    fn from(calls: Rate) -> Self {
        Self { calls, events: Rate::UNLIMITED }
    }
}

/// An API server.
#[derive(Debug, Clone)]
pub struct Cluster {
    caller: Arc<Caller>,
    exclusion: Arc<Exclusion>,
    /// Who writes events, and from where.
    source: Arc<Source>,
}

/// Who writes events.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The name of the program.
    pub component: &'static str,
    /// The machine it runs on.
    pub host: String,
}

impl Cluster {
    /// The server at the other end of a connection.
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

    /// Counts calls from now on, in the given registry. Once: a second one changes nothing.
    pub fn count_calls(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        if self.caller.counted.get().is_none() {
            let counted = Counted::new(registry, self.address())?;
            drop(self.caller.counted.set(counted));
        }
        Ok(())
    }

    /// Where the server is.
    pub fn address(&self) -> &str {
        self.caller.connection.address()
    }

    /// Whether the server says that it is well.
    pub async fn is_healthy(&self) -> Result<(), ApiError> {
        self.caller.read(Call::get("/healthz".to_owned()).in_own_lane()).await.map(drop)
    }
}
