//! Registers the node.

use model::chain::Chain;
use model::jitter::fraction;
use model::ports::cluster::ApiError;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::decide::conditions::is_ready;
use crate::decide::object::node_object;
use crate::decide::pace::{backoff, not_before};
use crate::status::StatusTask;

impl StatusTask {
    /// Creates the node object, or adopts an existing one, retrying until it succeeds.
    pub(crate) async fn register(&mut self) {
        let mut failures = 0;
        while self.own.node().is_none() {
            let Err(error) = self.try_register().await else { return };
            failures += 1;
            if self.throttle.failed(Instant::now().into_std()) {
                let error = Chain(&error);
                warn!(node = self.settings.own.name, %error, "Unable to register node with API server, retrying");
            }
            let wait = not_before(backoff(failures), &error);
            // Another client may have created it, or the watch may have delivered it meanwhile.
            let appears = self.own.wait_for(|own| own.node().is_some().then_some(()));
            if timeout(wait, appears).await.is_ok() {
                return;
            }
        }
    }

    async fn try_register(&mut self) -> Result<(), ApiError> {
        let unwell = self.unwell();
        let facts = self.facts.borrow().clone();
        let (node, events) = node_object(self.known(&facts, &unwell), self.ports.clock.now());
        self.startup.attempts(self.start.elapsed());
        let created = self.in_time(self.ports.api.create_node(&node)).await;
        match created {
            Ok(created) => {
                if let Some(registration) = self.startup.registered(self.start.elapsed()) {
                    self.ports.metrics.registered(registration, self.start);
                }
                self.time_ready(&created);
                let ready = is_ready(created.status.as_ref().and_then(|s| s.conditions.as_ref()));
                info!(node = self.settings.own.name, ready, "Successfully registered node");
                let uid = created.metadata.uid.clone();
                self.own.observe(created);
                if std::mem::replace(&mut self.reconciled, uid).is_some() {
                    self.own.restart_watch();
                }
                self.reports.record(true, self.start.elapsed(), fraction());
                self.record(events);
                Ok(())
            }
            // A client that may not create the node may still update it.
            Err(ApiError::Conflict(_) | ApiError::Refused { code: 403, .. }) => {
                let name = &self.settings.own.name;
                let found = self.in_time(self.ports.api.own_node(name)).await?;
                let found = found.ok_or(ApiError::NotFound)?;
                info!(node = name, "Node was previously registered");
                self.own.observe(found);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
