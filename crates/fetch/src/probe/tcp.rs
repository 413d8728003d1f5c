//! TCP probes.

use model::ports::probes::TcpProbe;
use model::probe::ProbeOutput;
use tokio::time::Instant;

use super::dial::Dialer;
use super::{failure, success};

/// Passes when a connection is established. Nothing is sent.
pub(super) async fn probe(dialer: &Dialer, probe: &TcpProbe, deadline: Instant) -> ProbeOutput {
    match dialer.dial(&probe.host, probe.port, deadline).await {
        Ok(_) => success(""),
        Err(cause) => failure(cause),
    }
}
