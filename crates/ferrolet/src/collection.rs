//! Garbage collection, as it is asked for.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use journal::Inputs;
use model::ports::clock::WallClock;
use server::wire::{GcDone, GcLine, GcPlan, GcSource};

/// What collects garbage on this node: nothing yet.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) clock: Arc<dyn WallClock>,
}

#[async_trait]
impl server::Collector for Collection {
    async fn plan(&self) -> GcPlan {
        GcPlan {
            generated_at: self.clock.now(),
            source: GcSource::Agent,
            policy: Inputs::default(),
            items: Vec::new(),
            problems: Vec::new(),
        }
    }

    async fn run(&self) -> BoxStream<'static, GcLine> {
        stream::iter([GcLine::Done(GcDone::default())]).boxed()
    }
}
