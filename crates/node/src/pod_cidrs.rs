//! Tells the runtime which addresses the pods of the node have, once the node was given some.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::RuntimeInfo;
use model::log_throttle::LogThrottle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::pace::again_after;
use crate::decide::pod_cidrs::untold;
use crate::own_node::OwnNode;

/// How long the runtime may take.
const LONGEST: Duration = Duration::from_secs(20);

/// Tells the runtime the addresses of pods.
#[derive(Debug)]
pub struct PodCidrs {
    pub(crate) runtime: Arc<dyn RuntimeInfo>,
    pub(crate) own: OwnNode,
}

impl PodCidrs {
    /// Tells them until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        // Biased: a stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.tell() => {}
        }
    }

    async fn tell(&self) {
        let mut told: Option<String> = None;
        let (mut failures, mut throttle) = (0, LogThrottle::default());
        loop {
            let wanted = self.own.wait_for(|own| untold(own.node()?, told.as_deref())).await;
            let answer = timeout(LONGEST, self.runtime.update_runtime_config(&wanted)).await;
            let error = match answer {
                Ok(Ok(())) => {
                    let after = throttle.recovered(Instant::now().into_std()).unwrap_or_default();
                    info!(cidrs = wanted, ?after, "the runtime knows the addresses of pods");
                    (told, failures) = (Some(wanted), 0);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it does not answer".to_owned(),
            };
            failures += 1;
            if throttle.failed(Instant::now().into_std()) {
                warn!(cidrs = wanted, error, "failed to update pod CIDR; trying again");
            }
            sleep(again_after(failures)).await;
        }
    }
}
