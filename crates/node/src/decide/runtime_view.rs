//! The reported state of the container runtime, and for how long it has not responded.

use std::time::Duration;

use model::ports::runtime::{RuntimeFeatures, RuntimeHandler, RuntimeStatus};

/// The network problem before the runtime reported its state.
const UNKNOWN_NETWORK: &str = "network state unknown";

/// The maximum age of the last successful status check.
const SILENCE: Duration = Duration::from_secs(30);

/// The known state of the runtime. Times are relative to the start of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeView {
    /// When it last reported to be ready.
    last_good: Option<Duration>,
    runtime_error: Option<String>,
    network_error: Option<String>,
    /// Its runtime handlers, by name.
    pub handlers: Vec<RuntimeHandler>,
    /// Its features, once it has reported them.
    pub features: Option<RuntimeFeatures>,
    /// Such as `containerd://2.4.2`; `None` before it was reported.
    pub version: Option<String>,
}

impl Default for RuntimeView {
    fn default() -> Self {
        Self {
            last_good: None,
            runtime_error: None,
            network_error: Some(UNKNOWN_NETWORK.to_owned()),
            handlers: Vec::new(),
            features: None,
            version: None,
        }
    }
}

impl RuntimeView {
    /// Processes a reported status. Returns whether the node status may change.
    pub fn update(&mut self, status: &RuntimeStatus, at: Duration) -> bool {
        let before = (self.silence_error(at).is_some(), self.clone());
        self.network_error = status.network_error();
        self.runtime_error = status.runtime_error();
        if self.runtime_error.is_none() {
            self.handlers.clone_from(&status.handlers);
            self.handlers.sort_by(|one, other| one.name.cmp(&other.name));
            self.features = Some(status.features);
            self.last_good = Some(at);
        }
        let same = Self { last_good: before.1.last_good, ..self.clone() };
        before.0 != self.silence_error(at).is_some() || before.1 != same
    }

    /// Processes name and version of the runtime. Returns whether they changed.
    pub fn set_version(&mut self, name: &str, version: &str) -> bool {
        let version = version.strip_prefix('v').unwrap_or(version);
        let reported = Some(format!("{name}://{version}"));
        let changed = self.version != reported;
        self.version = reported;
        changed
    }

    /// Whether the last report was ready.
    pub fn is_ready(&self) -> bool {
        self.last_good.is_some() && self.runtime_error.is_none() && self.network_error.is_none()
    }

    /// The problem of missing responses.
    pub(super) fn silence_error(&self, now: Duration) -> Option<&'static str> {
        match self.last_good {
            None => Some("container runtime status check may not have completed yet"),
            Some(good) if now >= good + SILENCE => Some("container runtime is down"),
            Some(_) => None,
        }
    }

    /// Why it cannot run containers, as reported.
    pub fn runtime_error(&self) -> Option<&str> {
        self.runtime_error.as_deref()
    }

    /// Why pods get no network, as reported. Pods in the host network are not affected.
    pub(super) fn network_error(&self) -> Option<&str> {
        self.network_error.as_deref()
    }

    /// The network problem, if one was reported.
    pub fn known_network_error(&self) -> Option<&str> {
        self.network_error().filter(|error| *error != UNKNOWN_NETWORK)
    }
}

#[cfg(test)]
#[path = "runtime_view_tests.rs"]
mod tests;
