//! Renews the node lease.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use model::chain::Chain;
use model::jitter::fraction;
use model::log_throttle::LogThrottle;
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::node_api::NodeLeases;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::lease::LeaseTerms;
use crate::decide::pace::{TRIES, backoff, jittered, not_before};
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
    /// The timeout of a call.
    limit: Duration,
    /// The lease as last written: usually the current one, so a renewal is one call.
    latest: Option<Lease>,
    /// Whether the lease existed.
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

    /// Renews until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: `stop` is cancelled once.
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

    /// Renews or creates the lease, retrying until it succeeds.
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
                        info!(?after, "Node lease is renewed again");
                    }
                    return;
                }
                Err(error) => {
                    // The lease is fetched before the next attempt.
                    self.latest = None;
                    failures += 1;
                    if self.throttle.failed(Instant::now().into_std()) {
                        let error = Chain(&error);
                        warn!(%error, "Failed to renew node lease, retrying");
                    }
                    sleep(not_before(backoff(failures + 1), &error)).await;
                }
            }
        }
    }

    /// Writes the lease with some immediate attempts; after a conflict it must be fetched again.
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
                    debug!(error = %Chain(&error), number, "Attempt to renew node lease failed");
                    last = error;
                }
            }
        }
        Err(last)
    }

    /// Fetches and renews the lease, or creates it. It is created only for a known node.
    async fn ensure(&mut self) -> Result<(), ApiError> {
        let found = in_time(self.limit, self.leases.node_lease(&self.terms.node)).await?;
        if let Some(found) = found {
            return self.update(found).await;
        }
        // A lease is deleted with its node.
        if std::mem::take(&mut self.was_there) {
            self.own.mark_stale();
        }
        let uid = self.own.wait_for(|own| own.uid().cloned()).await;
        let lease = self.terms.make(&uid, self.clock.now());
        let made = in_time(self.limit, self.leases.create_node_lease(&lease)).await?;
        self.latest = Some(made);
        self.was_there = true;
        Ok(())
    }
}
