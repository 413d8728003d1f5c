//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{Gauge, Registry};
use tokio::time::Instant;

use crate::decide::startup::Registration;

/// Startup durations of the node.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// When the machine booted, if that is known.
    booted: Option<Instant>,
    before_agent: Gauge,
    before_registration: Gauge,
    registration: Gauge,
    after_registration: Gauge,
    in_all: Gauge,
}

impl Metrics {
    /// Creates metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let gauge = |part: &str, what: &str| {
            let name = format!("kubelet_node_startup_{part}duration_seconds");
            let gauge = Gauge::new(name, format!("Seconds that a new node took to start{what}."))?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            booted: None,
            before_agent: gauge("pre_kubelet_", ", before the agent ran")?,
            before_registration: gauge("pre_registration_", ", before its object was to be made")?,
            registration: gauge("registration_", ", while its object was made")?,
            after_registration: gauge("post_registration_", ", from then on until it was ready")?,
            in_all: gauge("", ", from the boot of the machine on")?,
        })
    }

    /// Sets when the machine booted.
    #[must_use]
    pub fn booted(self, booted: Option<Instant>) -> Self {
        Self { booted, ..self }
    }

    /// Records that an agent started at `start` created the node object.
    pub(crate) fn registered(&self, registration: Registration, start: Instant) {
        if let Some(booted) = self.booted {
            self.before_agent.set(start.saturating_duration_since(booted).as_secs_f64());
        }
        self.before_registration.set(registration.before.as_secs_f64());
        self.registration.set(registration.took.as_secs_f64());
    }

    /// Records that the node became ready this long after its registration.
    pub(crate) fn ready(&self, after: Duration) {
        self.after_registration.set(after.as_secs_f64());
        if let Some(booted) = self.booted {
            self.in_all.set(booted.elapsed().as_secs_f64());
        }
    }
}
