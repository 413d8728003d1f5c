//! A call of the runtime on its way.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::{Code, RuntimeError};
use testkit::runtime::Method;

use crate::history::Event;
use crate::outside::Outside;

/// How long a call may take, as the real adapter has it.
pub(super) const DEADLINE: Duration = Duration::from_mins(2);
/// The same for a pull; the real one has an hour.
const PULL_DEADLINE: Duration = Duration::from_mins(6);
/// The same for a command that may take as long as it likes.
pub(super) const COMMAND_DEADLINE: Duration = Duration::from_hours(25_000);

/// A call on its way.
pub(super) struct Call {
    pub(super) method: Method,
    /// As people read it.
    pub(super) object: String,
    pub(super) deadline: Duration,
}

/// A look that goes wrong, while somebody waits for it.
pub(super) struct SpoiltLook(Arc<Outside>);

impl SpoiltLook {
    pub(super) fn new(outside: &Arc<Outside>) -> Self {
        outside.record(Event::LookSpoilt);
        Self(Arc::clone(outside))
    }
}

impl Drop for SpoiltLook {
    fn drop(&mut self) {
        self.0.record(Event::SpoiltLookOver);
    }
}

impl Call {
    pub(super) fn new(method: Method, object: impl Into<String>) -> Self {
        let deadline = match method {
            Method::PullImage => PULL_DEADLINE,
            Method::RunPodSandbox | Method::StopPodSandbox => DEADLINE * 2,
            _ => DEADLINE,
        };
        Self { method, object: object.into(), deadline }
    }

    pub(super) fn error(&self, code: Code, message: &str) -> RuntimeError {
        RuntimeError {
            method: self.method.name(),
            object: self.object.clone(),
            code,
            message: message.to_owned(),
        }
    }
}
