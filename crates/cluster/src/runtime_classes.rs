//! Runtime classes of the API server.

use std::borrow::Cow;

use async_trait::async_trait;
use model::objects::RuntimeClassRecord;
use model::ports::cluster::Sink;
use model::ports::objects::RuntimeClassFeed;
use serde::Deserialize;

use crate::Cluster;
use crate::decode::{Identity, Metadata};
use crate::follow::{Follower, Kind, has_slim_metadata};

/// A runtime class.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuntimeClass<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    handler: Cow<'a, str>,
}

has_slim_metadata!(RuntimeClass);

struct AllClasses;

impl Kind for AllClasses {
    type Object<'a> = RuntimeClass<'a>;
    type Record = RuntimeClassRecord;
    type Key = String;
    const NAME: &'static str = "runtime classes";

    fn path(&self) -> Cow<'_, str> {
        "/apis/node.k8s.io/v1/runtimeclasses".into()
    }

    fn key(class: &Identity<'_>) -> String {
        class.name.clone().into_owned()
    }

    fn record(&self, class: RuntimeClass<'_>) -> RuntimeClassRecord {
        RuntimeClassRecord {
            name: class.metadata.name.into_owned(),
            handler: class.handler.into_owned(),
        }
    }
}

#[async_trait]
impl RuntimeClassFeed for Cluster {
    async fn follow_runtime_classes(&self, sink: &dyn Sink<RuntimeClassRecord, String>) {
        Follower::new(&self.caller, AllClasses, sink).run().await;
    }
}
