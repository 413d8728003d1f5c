//! Probes over HTTP, TCP and gRPC: the implementation of the port.

mod close;
mod dial;
mod first_bytes;
mod grpc;
mod http;
mod http_connection;
mod http_request;
mod tcp;
mod text;

use std::time::Duration;

use async_trait::async_trait;
use model::ports::probes::{NetworkProbe, ProbeClient};
use model::probe::{ProbeOutput, ProbeVerdict};
use tokio::time::Instant;

use self::dial::Dialer;
use crate::tls::Tls;

/// Sends probe requests over the network. Each has a connection of its own.
#[derive(Debug)]
pub struct ProbeDialer {
    dialer: Dialer,
    tls: Tls,
}

impl Default for ProbeDialer {
    fn default() -> Self {
        Self { dialer: Dialer::default(), tls: Tls::for_probes() }
    }
}

#[async_trait]
impl ProbeClient for ProbeDialer {
    async fn probe(&self, probe: &NetworkProbe, timeout: Duration) -> Result<ProbeOutput, String> {
        let deadline = Instant::now() + timeout;
        match probe {
            NetworkProbe::Http(probe) => {
                http::probe(&self.dialer, &self.tls, probe, deadline).await
            }
            NetworkProbe::Tcp(probe) => Ok(tcp::probe(&self.dialer, probe, deadline).await),
            NetworkProbe::Grpc(probe) => Ok(grpc::probe(&self.dialer, probe, timeout).await),
        }
    }
}

fn success(output: impl Into<String>) -> ProbeOutput {
    ProbeOutput { verdict: ProbeVerdict::Success, output: output.into() }
}

fn failure(output: impl Into<String>) -> ProbeOutput {
    ProbeOutput { verdict: ProbeVerdict::Failure, output: output.into() }
}
