//! Sends the node's pod CIDRs to the runtime, once they are assigned.

use std::sync::Arc;
use std::time::Duration;

use model::log_throttle::LogThrottle;
use model::ports::runtime::RuntimeInfo;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::pace::backoff;
use crate::decide::pod_cidrs::unsent_pod_cidrs;
use crate::own_node::OwnNode;

/// The timeout of a call.
const LONGEST: Duration = Duration::from_secs(20);

/// Sends the pod CIDRs to the runtime.
#[derive(Debug)]
pub struct PodCidrs {
    pub(crate) runtime: Arc<dyn RuntimeInfo>,
    pub(crate) own: OwnNode,
}

impl PodCidrs {
    /// Sends changed CIDRs until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&self) {
        let mut sent: Option<String> = None;
        let (mut failures, mut throttle) = (0, LogThrottle::default());
        loop {
            let wanted =
                self.own.wait_for(|own| unsent_pod_cidrs(own.node()?, sent.as_deref())).await;
            let answer = timeout(LONGEST, self.runtime.update_runtime_config(&wanted)).await;
            let error = match answer {
                Ok(Ok(())) => {
                    let after = throttle.recovered(Instant::now().into_std()).unwrap_or_default();
                    info!(cidrs = wanted, ?after, "Updated pod CIDR of the runtime");
                    (sent, failures) = (Some(wanted), 0);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "timed out".to_owned(),
            };
            failures += 1;
            if throttle.failed(Instant::now().into_std()) {
                warn!(cidrs = wanted, error, "Failed to update pod CIDR, retrying");
            }
            sleep(backoff(failures)).await;
        }
    }
}
