//! Renews the lease that says that the node lives.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use model::chain::Chain;
use model::jitter::fraction;
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::node_api::NodeLeases;
use model::log_throttle::LogThrottle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::lease::LeaseTerms;
use crate::decide::pace::{TRIES, again_after, jittered, not_before};
use crate::decide::settings::Settings;
use crate::own_node::OwnNode;
use crate::ports::{NodePorts, in_time};

/// Renews the lease of the node.
#[derive(Debug)]
pub struct LeaseTask {
    terms: LeaseTerms,
    leases: Arc<dyn NodeLeases>,
    clock: Arc<dyn WallClock>,
    own: OwnNode,
    /// How long a call may take.
    limit: Duration,
    /// The lease as it was last written: most likely what is there, so a renewal is one call.
    latest: Option<Lease>,
    /// Whether there was one.
    was_there: bool,
    throttle: LogThrottle,
}

impl LeaseTask {
    pub(crate) fn new(settings: &Settings, ports: &NodePorts, own: OwnNode) -> Self {
        let (node, duration) = (settings.own.name.clone(), settings.lease_duration);
        Self {
            terms: LeaseTerms { node, duration },
            leases: Arc::clone(&ports.leases),
            clock: Arc::clone(&ports.clock),
            own,
            limit: settings.answer_time(),
            latest: None,
            was_there: false,
            throttle: LogThrottle::default(),
        }
    }

    /// Renews until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: a stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        loop {
            self.renew().await;
            sleep(jittered(self.terms.renew_interval(), fraction())).await;
        }
    }

    /// Renews the lease, or makes it, however long that takes.
    async fn renew(&mut self) {
        let mut failures = 0;
        loop {
            let outcome = match self.latest.clone() {
                Some(latest) => self.update(latest).await,
                None => self.ensure().await,
            };
            match outcome {
                Ok(()) => {
                    if let Some(after) = self.throttle.recovered(Instant::now().into_std()) {
                        info!(?after, "the node's lease can be renewed again");
                    }
                    return;
                }
                Err(error) => {
                    // What is there is looked at before the next try.
                    self.latest = None;
                    failures += 1;
                    if self.throttle.failed(Instant::now().into_std()) {
                        let error = Chain(&error);
                        warn!(%error, "the node's lease cannot be renewed; trying again");
                    }
                    sleep(not_before(again_after(failures + 1), &error)).await;
                }
            }
        }
    }

    /// Writes the lease, with some tries at once; a conflict means that it has to be looked at again.
    async fn update(&mut self, mut base: Lease) -> Result<(), ApiError> {
        let mut last = ApiError::NotFound;
        for number in 0..TRIES {
            let uid = self.own.uid();
            let lease = self.terms.renew(base.clone(), uid.as_deref(), self.clock.now());
            match in_time(self.limit, self.leases.update_node_lease(&lease)).await {
                Ok(written) => {
                    self.latest = Some(written);
                    self.was_there = true;
                    return Ok(());
                }
                Err(error @ (ApiError::NotFound | ApiError::Throttled { .. })) => {
                    return Err(error);
                }
                Err(ApiError::Conflict(why)) => {
                    let found = in_time(self.limit, self.leases.node_lease(&self.terms.node)).await;
                    base = found?.ok_or(ApiError::NotFound)?;
                    last = ApiError::Conflict(why);
                }
                Err(error) => {
                    debug!(error = %Chain(&error), number, "the lease was not renewed");
                    last = error;
                }
            }
        }
        Err(last)
    }

    /// Finds the lease and renews it, or makes it. One is made only for a node that is known.
    async fn ensure(&mut self) -> Result<(), ApiError> {
        let found = in_time(self.limit, self.leases.node_lease(&self.terms.node)).await?;
        if let Some(found) = found {
            return self.update(found).await;
        }
        // A lease goes with its node.
        if std::mem::take(&mut self.was_there) {
            self.own.doubt();
        }
        let uid = self.own.wait_for(|own| own.uid().cloned()).await;
        let lease = self.terms.make(&uid, self.clock.now());
        let made = in_time(self.limit, self.leases.create_node_lease(&lease)).await?;
        self.latest = Some(made);
        self.was_there = true;
        Ok(())
    }
}
