//! Calls that the agent makes for a pod.

use std::sync::Arc;

use crate::history::{ActionTarget, Event};
use crate::outside::Outside;

/// Records such a call while its caller waits for the result.
#[derive(Debug)]
pub(crate) struct Acting {
    outside: Arc<Outside>,
    target: ActionTarget,
}

impl Acting {
    pub(crate) fn new(outside: &Arc<Outside>, target: ActionTarget) -> Self {
        outside.record(Event::ActionBegan(target.clone()));
        Self { outside: Arc::clone(outside), target }
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.outside.record(Event::ActionEnded(self.target.clone()));
    }
}
