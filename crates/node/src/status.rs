//! Maintains the status of the node on the API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use model::chain::Chain;
use model::jitter::fraction;
use model::log_throttle::LogThrottle;
use model::ports::cluster::ApiError;
use model::ports::events::NodeEvent;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::conditions::is_ready;
use crate::decide::difference::difference;
use crate::decide::facts::Facts;
use crate::decide::health::UnhealthyPart;
use crate::decide::object::{node_object, set_required_labels};
use crate::decide::own_object::OwnObject;
use crate::decide::pace::{TRIES, is_starting, jittered, not_before};
use crate::decide::reconcile::reconcile;
use crate::decide::reports::Reports;
use crate::decide::resources::set_to_zero;
use crate::decide::settings::Settings;
use crate::decide::startup::Startup;
use crate::decide::status::{
    REBOOTED, StatusFacts, is_unschedulable, schedulable_event, set_status, starting_events,
};
use crate::own_node::OwnNode;
use crate::ports::{NodePorts, all_well, in_time, unwell};

/// How long the registration waits for a node that is about to be ready.
const READY_WAIT: Duration = Duration::from_secs(1);
/// The minimum interval of writes after changes.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// Creates the node object and maintains its status.
#[derive(Debug)]
pub struct StatusTask {
    pub(crate) settings: Arc<Settings>,
    pub(crate) ports: NodePorts,
    pub(crate) facts: watch::Receiver<Facts>,
    pub(crate) own: OwnNode,
    changes: watch::Receiver<OwnObject>,
    pub(crate) start: Instant,
    pub(crate) reports: Reports,
    pub(crate) throttle: LogThrottle,
    /// The uid of the object that was reconciled.
    pub(crate) reconciled: Option<String>,
    was_unschedulable: bool,
    was_ready: bool,
    /// The parts that were unhealthy at the last update.
    was_unwell: Vec<UnhealthyPart>,
    reboot_recorded: bool,
    pub(crate) startup: Startup,
}

impl StatusTask {
    pub(crate) fn new(
        settings: Arc<Settings>,
        ports: NodePorts,
        facts: watch::Receiver<Facts>,
        own: OwnNode,
        start: Instant,
    ) -> Self {
        Self {
            reports: Reports::new(settings.report_frequency),
            settings,
            ports,
            facts,
            changes: own.changes(),
            own,
            start,
            throttle: LogThrottle::default(),
            reconciled: None,
            was_unschedulable: false,
            was_ready: false,
            was_unwell: Vec::new(),
            reboot_recorded: false,
            startup: Startup::default(),
        }
    }

    /// Maintains the status until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        self.record(starting_events(&self.settings));
        self.wait_for_ready().await;
        loop {
            self.facts.mark_unchanged();
            self.changes.mark_unchanged();
            match self.sync().await {
                Ok(()) => {
                    if let Some(after) = self.throttle.recovered(Instant::now().into_std()) {
                        info!(?after, "Node status updates succeed again");
                    }
                    self.rest().await;
                }
                Err(error) => {
                    if self.throttle.failed(Instant::now().into_std()) {
                        let error = Chain(&error);
                        warn!(%error, "Unable to update node status, retrying later");
                    }
                    // Wait before the next attempt, regardless of changes.
                    sleep(not_before(self.period(), &error)).await;
                }
            }
        }
    }

    /// Waits a moment for the first observations, so that a healthy node is ready at its registration.
    async fn wait_for_ready(&self) {
        let mut facts = self.facts.clone();
        let all_known = async {
            let is_known = |facts: &Facts| facts.was_looked_at && facts.runtime.is_ready();
            // The sender lives as long as this task.
            drop(facts.wait_for(is_known).await);
            self.own.wait_for(|own| own.is_known().then_some(())).await;
            all_well(&self.ports.checks).await;
        };
        if timeout(READY_WAIT, all_known).await.is_err() {
            debug!("Node is not ready at its registration");
        }
    }

    /// Waits until the status may have to be written.
    async fn rest(&mut self) {
        let (period, since) = (self.period(), Instant::now());
        // Biased: the update that follows reads all changes.
        tokio::select! {
            biased;
            Ok(()) = self.facts.changed() => {}
            Ok(()) = self.changes.changed() => {}
            () = all_well(&self.ports.checks), if !self.was_unwell.is_empty() => {}
            () = sleep(period) => {}
        }
        if !is_starting(self.start.elapsed(), self.was_ready) {
            sleep(LEAST_PAUSE.saturating_sub(since.elapsed())).await;
        }
    }

    fn period(&self) -> Duration {
        jittered(self.settings.update_frequency, fraction())
    }

    /// Registers the node if it does not exist, and writes its status if that is due.
    async fn sync(&mut self) -> Result<(), ApiError> {
        let mut was_gone = false;
        if self.own.take_stale() {
            self.check_existence().await?;
        }
        loop {
            if self.settings.register && self.own.node().is_none() {
                self.register().await;
            }
            match self.update().await {
                // It was deleted meanwhile; retry once, and otherwise with the next update.
                Err(ApiError::NotFound) if !was_gone => {
                    was_gone = true;
                    self.own.set_missing();
                }
                outcome => return outcome,
            }
        }
    }

    async fn check_existence(&self) -> Result<(), ApiError> {
        match self.in_time(self.ports.api.own_node(&self.settings.own.name)).await {
            Ok(Some(node)) => self.own.observe(node),
            Ok(None) => self.own.set_missing(),
            Err(error) => {
                self.own.mark_stale();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes the status with some attempts; the first of them is based on the known object.
    async fn update(&mut self) -> Result<(), ApiError> {
        let mut last = ApiError::NotFound;
        for number in 0..TRIES {
            if number > 0 {
                let name = &self.settings.own.name;
                match self.in_time(self.ports.api.own_node(name)).await {
                    Ok(Some(node)) => self.own.observe(node),
                    Ok(None) => return Err(ApiError::NotFound),
                    Err(error) => {
                        last = error;
                        continue;
                    }
                }
            }
            let Some(node) = self.own.node() else {
                // This agent does not create it; the watch shows when another client does.
                return Ok(());
            };
            match self.try_update(&node).await {
                Ok(()) => return Ok(()),
                Err(error @ (ApiError::NotFound | ApiError::Throttled { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    debug!(error = %Chain(&error), number, "Attempt to update node status failed");
                    last = error;
                }
            }
        }
        Err(last)
    }

    async fn try_update(&mut self, old: &Node) -> Result<(), ApiError> {
        let unwell = self.unwell();
        let facts = self.facts.borrow().clone();
        let now = self.ports.clock.now();
        let known = self.known(&facts, &unwell);
        let mut node = old.clone();
        if self.reconciled != old.metadata.uid {
            set_to_zero(&mut node, self.settings.own.former_devices.iter());
            if self.settings.register {
                reconcile(&mut node, &node_object(known, now).0);
            }
        }
        set_required_labels(&mut node, &self.settings);
        let mut events = set_status(&mut node, known, now);
        let ready = is_ready(node.status.as_ref().and_then(|status| status.conditions.as_ref()));
        events.extend(schedulable_event(old, self.was_unschedulable));
        let found = difference(old, &node);
        if self.reports.is_due(found.is_change, self.start.elapsed()) {
            let name = &self.settings.own.name;
            let patched = self
                .in_time(self.ports.api.patch_node_status(name, found.patch.to_string()))
                .await?;
            self.reports.record(found.is_change, self.start.elapsed(), fraction());
            self.reconciled.clone_from(&patched.metadata.uid);
            self.time_ready(&patched);
            self.own.observe(patched);
        }
        self.was_ready |= ready;
        self.was_unwell = unwell;
        self.was_unschedulable = is_unschedulable(old);
        self.record(events);
        Ok(())
    }

    /// Measures the time until the API server has a ready node.
    pub(crate) fn time_ready(&mut self, written: &Node) {
        let conditions = written.status.as_ref().and_then(|status| status.conditions.as_ref());
        if is_ready(conditions)
            && let Some(after) = self.startup.ready(self.start.elapsed())
        {
            self.ports.metrics.ready(after);
        }
    }

    pub(crate) fn known<'a>(
        &'a self,
        facts: &'a Facts,
        unwell: &'a [UnhealthyPart],
    ) -> StatusFacts<'a> {
        StatusFacts { settings: &self.settings, facts, unwell, since_start: self.start.elapsed() }
    }

    pub(crate) fn unwell(&self) -> Vec<UnhealthyPart> {
        unwell(&self.ports.checks)
    }

    /// Records events; that of a reboot once.
    pub(crate) fn record(&mut self, events: Vec<NodeEvent>) {
        for event in events {
            let is_reboot = event.reason == REBOOTED;
            if !is_reboot || !std::mem::replace(&mut self.reboot_recorded, true) {
                self.ports.events.record(event);
            }
        }
    }

    /// Runs a call with a timeout that is shorter than the lease duration.
    pub(crate) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        in_time(self.settings.answer_time(), call).await
    }
}
