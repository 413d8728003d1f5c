//! Calls by which the agent does something for a pod.

use std::sync::Arc;

use crate::history::{Acted, Event};
use crate::outside::Outside;

/// Such a call, while somebody waits for it.
#[derive(Debug)]
pub(crate) struct Acting {
    outside: Arc<Outside>,
    acted: Acted,
}

impl Acting {
    pub(crate) fn new(outside: &Arc<Outside>, acted: Acted) -> Self {
        outside.record(Event::Acts(acted.clone()));
        Self { outside: Arc::clone(outside), acted }
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.outside.record(Event::HasActed(self.acted.clone()));
    }
}
