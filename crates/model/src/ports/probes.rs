//! Probing containers over the network.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::probe::ProbeOutput;

/// How probes identify themselves, as upstream's v1.36.
pub const USER_AGENT: &str = "kube-probe/1.36";

/// A probe request with all names resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkProbe {
    /// HTTP GET.
    Http(HttpProbe),
    /// A TCP connection.
    Tcp(TcpProbe),
    /// A `grpc.health.v1.Health/Check` call.
    Grpc(GrpcProbe),
}

/// An HTTP GET request of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProbe {
    /// `http://` or `https://`, with host, port, path and query.
    pub url: String,
    /// Headers in their order, repeated names kept; a `Host` header replaces the URL's host.
    pub headers: Vec<(String, String)>,
}

/// The target of a TCP probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpProbe {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The target of a gRPC probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcProbe {
    /// An address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The service of the health check; empty for the whole server.
    pub service: String,
}

/// Sends probe requests.
#[async_trait]
pub trait ProbeClient: Debug + Send + Sync {
    /// Probes once, within `timeout`. An error is not a verdict: the attempt is tried again, then
    /// discarded.
    async fn probe(&self, probe: &NetworkProbe, timeout: Duration) -> Result<ProbeOutput, String>;
}
