//! A removal that an agent waits for.

use std::sync::Arc;

use model::verdict::Verdict;

use crate::history::{Event, ObjectRef};
use crate::life::Life;
use crate::outside::Outside;

/// Recorded when it begins, and when the agent has its result or gives up; not if the agent dies.
#[derive(Debug)]
pub(crate) struct Removal {
    outside: Arc<Outside>,
    life: Arc<Life>,
    object: ObjectRef,
}

impl Removal {
    pub(crate) fn new(outside: &Arc<Outside>, life: &Arc<Life>, verdict: &Verdict) -> Self {
        let object = ObjectRef::from(&verdict.subject);
        let (outside, life) = (Arc::clone(outside), Arc::clone(life));
        if !life.over.is_cancelled() {
            outside.record(Event::RemovalBegan(object.clone(), verdict.rule));
        }
        Self { outside, life, object }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if !self.life.over.is_cancelled() {
            self.outside.record(Event::RemovalEnded(self.object.clone()));
        }
    }
}
