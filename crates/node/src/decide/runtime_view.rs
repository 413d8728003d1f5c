//! What the container runtime says about itself, and for how long it has said nothing.

use std::time::Duration;

use model::ports::runtime::{RuntimeFeatures, RuntimeHandler, RuntimeStatus};

/// What is wrong with a network of which nothing was said.
const UNKNOWN_NETWORK: &str = "network state unknown";

/// How long ago the last good answer may be.
const SILENCE: Duration = Duration::from_secs(30);

/// What is known of the runtime. Times count from the start of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeView {
    /// When it last said that it is ready.
    last_good: Option<Duration>,
    runtime_error: Option<String>,
    network_error: Option<String>,
    /// How it can run pods, by name.
    pub handlers: Vec<RuntimeHandler>,
    /// What it can do, once it has said so.
    pub features: Option<RuntimeFeatures>,
    /// `containerd://2.4.2`; nothing before it was told.
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
    /// Takes what the runtime says. Whether that makes a difference to what is told about the node.
    pub fn heard(&mut self, status: &RuntimeStatus, at: Duration) -> bool {
        let before = (self.trouble(at).is_some(), self.clone());
        self.network_error = status.network_error();
        self.runtime_error = status.runtime_error();
        if self.runtime_error.is_none() {
            self.handlers.clone_from(&status.handlers);
            self.handlers.sort_by(|one, other| one.name.cmp(&other.name));
            self.features = Some(status.features);
            self.last_good = Some(at);
        }
        let same = Self { last_good: before.1.last_good, ..self.clone() };
        before.0 != self.trouble(at).is_some() || before.1 != same
    }

    /// Takes name and version of the runtime. Whether they are others than before.
    pub fn is_called(&mut self, name: &str, version: &str) -> bool {
        let version = version.strip_prefix('v').unwrap_or(version);
        let told = Some(format!("{name}://{version}"));
        let changed = self.version != told;
        self.version = told;
        changed
    }

    /// Whether it said that it is ready, and nothing else since.
    pub fn is_ready(&self) -> bool {
        self.last_good.is_some() && self.runtime_error.is_none() && self.network_error.is_none()
    }

    /// What is wrong with what it does not say.
    pub(super) fn trouble(&self, now: Duration) -> Option<&'static str> {
        match self.last_good {
            None => Some("container runtime status check may not have completed yet"),
            Some(good) if now >= good + SILENCE => Some("container runtime is down"),
            Some(_) => None,
        }
    }

    /// Why it cannot run containers, in its own words.
    pub fn runtime_error(&self) -> Option<&str> {
        self.runtime_error.as_deref()
    }

    /// Why pods get no network, in its own words. Pods with the host's network do not mind.
    pub(super) fn network_error(&self) -> Option<&str> {
        self.network_error.as_deref()
    }

    /// The same, if it said so.
    pub fn known_network_error(&self) -> Option<&str> {
        self.network_error().filter(|error| *error != UNKNOWN_NETWORK)
    }
}

#[cfg(test)]
#[path = "runtime_view_tests.rs"]
mod tests;
