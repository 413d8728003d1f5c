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

/// How long one who asks for a class waits until all were told.
const PATIENCE: Duration = Duration::from_secs(1);

/// All services of the cluster. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Services {
    /// Written by the feed.
    listed: Arc<Mutex<Listed<ServiceName, ServiceRecord>>>,
}

impl Services {
    /// Follows the services, until it is told to stop.
    pub async fn run(self, feed: Arc<dyn ServiceFeed>, stop: CancellationToken) {
        stop.run_until_cancelled(feed.follow_services(&self)).await;
    }

    fn listed(&self) -> MutexGuard<'_, Listed<ServiceName, ServiceRecord>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink<ServiceRecord, ServiceName> for Services {
    fn hear(&self, change: Change<ServiceRecord, ServiceName>) {
        self.listed().hear(change, |service| service.name.clone());
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
        let told = of_default.flatten().into_iter().chain(own);
        Some(service_variables(told, namespace, links))
    }
}

/// All runtime classes of the cluster, from when somebody first asks for one. Clones are the same.
#[derive(Debug, Clone)]
pub struct RuntimeClasses {
    shared: Arc<Classes>,
}

#[derive(Debug)]
struct Classes {
    /// Written by the feed.
    listed: Mutex<Listed<String, RuntimeClassRecord>>,
    /// Whether all were told, by the feed.
    are_told: watch::Sender<bool>,
    /// Somebody asked. Waited for by the task alone.
    asked: Notify,
}

impl Default for RuntimeClasses {
    fn default() -> Self {
        let (listed, asked) = (Mutex::default(), Notify::new());
        Self { shared: Arc::new(Classes { listed, are_told: watch::Sender::new(false), asked }) }
    }
}

impl RuntimeClasses {
    /// Follows the classes once somebody asks for one, until it is told to stop.
    pub async fn run(self, feed: Arc<dyn RuntimeClassFeed>, stop: CancellationToken) {
        let follow = async {
            self.shared.asked.notified().await;
            feed.follow_runtime_classes(&self).await;
        };
        stop.run_until_cancelled(follow).await;
    }

    fn listed(&self) -> MutexGuard<'_, Listed<String, RuntimeClassRecord>> {
        self.shared.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink<RuntimeClassRecord, String> for RuntimeClasses {
    fn hear(&self, change: Change<RuntimeClassRecord, String>) {
        let mut listed = self.listed();
        listed.hear(change, |class| class.name.clone());
        let are_told = listed.all().is_some();
        drop(listed);
        let told = |before: &mut bool| std::mem::replace(before, are_told) != are_told;
        self.shared.are_told.send_if_modified(told);
    }
}

#[async_trait]
impl RuntimeHandlers for RuntimeClasses {
    async fn handler(&self, class: &str) -> Result<String, ObjectError> {
        self.shared.asked.notify_one();
        let mut are_told = self.shared.are_told.subscribe();
        let told = timeout(PATIENCE, are_told.wait_for(|told| *told)).await.is_ok();
        if !told {
            let message =
                format!("failed to lookup RuntimeClass {class}: nothing was heard of any yet");
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
