//! The services and the runtime classes of the cluster.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::objects::{RuntimeClassRecord, ServiceName, ServiceRecord};
use model::ports::cluster::{Change, Sink};
use model::ports::objects::{
    ObjectError, RuntimeClassFeed, RuntimeHandlers, ServiceFeed, ServiceVariables,
};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::decide::{Listed, service_variables};

/// How long a lookup of a class waits for the first list.
const PATIENCE: Duration = Duration::from_secs(1);

/// All services of the cluster. Clones share the store.
#[derive(Debug, Clone, Default)]
pub struct Services {
    /// Written by the feed.
    listed: Arc<Mutex<Listed<ServiceName, ServiceRecord>>>,
}

impl Services {
    /// Watches the services, until it is stopped.
    pub async fn run(self, feed: Arc<dyn ServiceFeed>, stop: CancellationToken) {
        stop.run_until_cancelled(feed.follow_services(&self)).await;
    }

    fn listed(&self) -> MutexGuard<'_, Listed<ServiceName, ServiceRecord>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink<ServiceRecord, ServiceName> for Services {
    fn receive(&self, change: Change<ServiceRecord, ServiceName>) {
        self.listed().receive(change, |service| service.name.clone());
    }
}

impl ServiceVariables for Services {
    fn variables(&self, namespace: &str, links: bool) -> Option<Vec<(String, String)>> {
        let name = |namespace: &str, name: &str| ServiceName {
            namespace: namespace.into(),
            name: name.into(),
        };
        let listed = self.listed();
        let all = listed.all()?;
        let own = all.range(name(namespace, "")..).map(|(_, service)| service);
        let own = own.take_while(|service| &*service.name.namespace == namespace);
        let of_default = (namespace != "default").then(|| all.get(&name("default", "kubernetes")));
        let visible = of_default.flatten().into_iter().chain(own);
        Some(service_variables(visible, namespace, links))
    }
}

/// All runtime classes of the cluster, watched from the first lookup on. Clones share the store.
#[derive(Debug, Clone)]
pub struct RuntimeClasses {
    shared: Arc<Classes>,
}

#[derive(Debug)]
struct Classes {
    /// Written by the feed.
    listed: Mutex<Listed<String, RuntimeClassRecord>>,
    /// Whether all were listed. Written by the feed.
    are_listed: watch::Sender<bool>,
    /// Wakes the task at the first lookup.
    requested: Notify,
}

impl Default for RuntimeClasses {
    fn default() -> Self {
        let (listed, requested) = (Mutex::default(), Notify::new());
        Self {
            shared: Arc::new(Classes { listed, are_listed: watch::Sender::new(false), requested }),
        }
    }
}

impl RuntimeClasses {
    /// Watches the classes from the first lookup on, until it is stopped.
    pub async fn run(self, feed: Arc<dyn RuntimeClassFeed>, stop: CancellationToken) {
        let follow = async {
            self.shared.requested.notified().await;
            feed.follow_runtime_classes(&self).await;
        };
        stop.run_until_cancelled(follow).await;
    }

    fn listed(&self) -> MutexGuard<'_, Listed<String, RuntimeClassRecord>> {
        self.shared.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink<RuntimeClassRecord, String> for RuntimeClasses {
    fn receive(&self, change: Change<RuntimeClassRecord, String>) {
        let mut listed = self.listed();
        listed.receive(change, |class| class.name.clone());
        let are_listed = listed.all().is_some();
        drop(listed);
        let changed = |before: &mut bool| std::mem::replace(before, are_listed) != are_listed;
        self.shared.are_listed.send_if_modified(changed);
    }
}

#[async_trait]
impl RuntimeHandlers for RuntimeClasses {
    async fn handler(&self, class: &str) -> Result<String, ObjectError> {
        self.shared.requested.notify_one();
        let mut are_listed = self.shared.are_listed.subscribe();
        let listed = timeout(PATIENCE, are_listed.wait_for(|listed| *listed)).await.is_ok();
        if !listed {
            let message = format!(
                "failed to lookup RuntimeClass {class}: the runtime classes are not listed yet"
            );
            return Err(ObjectError::NotRead(message));
        }
        let listed = self.listed();
        let found = listed.all().and_then(|all| all.get(class));
        found.map(|class| class.handler.clone()).ok_or_else(|| ObjectError::NotFound {
            resource: "runtimeclass.node.k8s.io",
            name: class.into(),
        })
    }
}
