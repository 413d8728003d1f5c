//! The deadlines of calls.

use std::time::Duration;

/// The class of a call, by what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The runtime: lists, statuses, versions, creating and starting a container.
    Request,
    /// Network setup, and perhaps a pull of the sandbox image.
    Sandbox,
    /// A process that may use its grace period.
    Stop(Duration),
    /// A command in a container, with or without a timeout.
    Exec(Option<Duration>),
    /// A checkpoint of a container, for which the caller may set a longer timeout.
    Checkpoint(Option<Duration>),
    /// A registry and the network.
    Pull,
}

/// The longest deadline: gRPC cannot encode every `Duration`.
const LONGEST: Duration = Duration::from_hours(25_000);

/// How much longer the deadline sent to the runtime is.
const ROOM: Duration = Duration::from_secs(1);

/// The deadline of each class of calls.
#[derive(Debug, Clone)]
pub struct Deadlines {
    /// `runtimeRequestTimeout` of the configuration; the others follow from it, like upstream.
    pub request: Duration,
    /// The timeout of a pull: enough for the largest image on a slow network.
    pub pull: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { request: Duration::from_mins(2), pull: Duration::from_hours(1) }
    }
}

impl Deadlines {
    /// The deadline of a class.
    pub(crate) fn of(&self, class: Class) -> Duration {
        let deadline = match class {
            Class::Request => self.request,
            Class::Sandbox => self.request.saturating_mul(2),
            Class::Stop(grace) => self.request.saturating_add(grace),
            Class::Exec(timeout) => {
                timeout.map_or(LONGEST, |timeout| self.request.saturating_add(timeout))
            }
            Class::Checkpoint(timeout) => {
                timeout.map_or(self.request, |time| time.max(self.request))
            }
            Class::Pull => self.pull,
        };
        deadline.min(LONGEST)
    }
}

/// The deadline that is sent to the runtime. The client cancels a late call itself, which ends it in the
/// runtime too. If the runtime gave up at the same moment, its answer and our timer would race, and the
/// error would vary. gRPC cuts the fraction of a second off long ones.
pub(crate) fn sent(deadline: Duration) -> Duration {
    deadline + ROOM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_class_has_its_deadline() {
        let deadlines =
            Deadlines { request: Duration::from_secs(10), pull: Duration::from_hours(1) };
        let rows = [
            (Class::Request, 10),
            (Class::Sandbox, 20),
            (Class::Stop(Duration::from_secs(30)), 40),
            (Class::Stop(Duration::MAX), 90_000_000),
            (Class::Exec(Some(Duration::from_secs(5))), 15),
            (Class::Exec(None), 90_000_000),
            (Class::Checkpoint(None), 10),
            (Class::Checkpoint(Some(Duration::from_secs(5))), 10),
            (Class::Checkpoint(Some(Duration::from_secs(50))), 50),
            (Class::Pull, 3600),
        ];
        for (class, seconds) in rows {
            assert_eq!(deadlines.of(class), Duration::from_secs(seconds), "{class:?}");
        }
    }
}
