//! Builds the access of pods to images: credentials and pull records.

use std::sync::Arc;

use async_trait::async_trait;
use gc::images::ImagesLeft;
use images::{
    AccessMetrics, AccessParts, NodeImageAccess, ProviderParts, PullRecords, RecordParts,
    ServiceAccounts, pull_records,
};
use model::chain::Chain;
use model::objects::{ServiceAccountRecord, ServiceAccountToken, TokenRequest};
use model::ports::objects::{PodObjects, ServiceAccountReads};
use objects::{ObjectStore, TokenStore};
use process::tasks::Tasks;
use tokio::sync::watch;

use crate::wiring::{Ports, Settings};

/// The parts of the agent that the access to images needs.
pub(super) struct AccessInputs {
    /// Secrets; `None` without an API server.
    pub(super) objects: Option<ObjectStore>,
    /// The images that collections leave.
    pub(super) left: watch::Receiver<Option<Arc<ImagesLeft>>>,
}

/// Starts the records of pulls, and returns the port.
pub(super) fn start_image_access(
    settings: &Settings,
    ports: &Ports,
    inputs: AccessInputs,
    tasks: &mut Tasks,
) -> Arc<NodeImageAccess> {
    let access = settings.image_access.clone();
    let metrics = AccessMetrics::new(&ports.metrics).expect("no other part counts pull records");
    let verification = access.verification.map(|policy| {
        let needs = RecordParts {
            files: Arc::clone(&ports.files),
            images: Arc::clone(&ports.runtime.images),
            clock: Arc::clone(&ports.clock),
            metrics: metrics.clone(),
            most_intents: access.most_intents,
            most_records: access.most_records,
        };
        let (records, task) = pull_records(needs, &settings.node.root_dir);
        tasks.spawn("pull records", |stop| task.run(stop));
        let (pruned, left) = (records.clone(), inputs.left);
        tasks.spawn("pull records of removed images", |stop| async move {
            stop.run_until_cancelled(prune(&pruned, left)).await;
        });
        (records, policy)
    });
    let accounts = ports.cluster.as_ref().map(|cluster| {
        let tokens = TokenStore::new(Arc::clone(&cluster.tokens), Arc::clone(&ports.clock));
        let accounts = Arc::clone(&cluster.accounts);
        Arc::new(ApiAccounts { accounts, tokens }) as _
    });
    let providers = ProviderParts {
        settings: access.providers,
        programs: Arc::clone(&ports.programs),
        accounts,
        clock: Arc::clone(&ports.clock),
        metrics: metrics.clone(),
    };
    Arc::new(NodeImageAccess::new(AccessParts {
        objects: inputs.objects.map(|objects| Arc::new(objects) as Arc<dyn PodObjects>),
        events: Arc::clone(&ports.events),
        files: Arc::clone(&ports.files),
        directories: access.directories,
        providers,
        metrics,
        verification,
    }))
}

/// Removes the records of images that a collection has removed. Never returns.
async fn prune(records: &PullRecords, mut left: watch::Receiver<Option<Arc<ImagesLeft>>>) {
    loop {
        if left.changed().await.is_err() {
            // The collection has ended, which ends the agent.
            std::future::pending::<()>().await;
        }
        let latest = left.borrow_and_update().clone();
        if let Some(latest) = latest {
            records.prune(latest.began, latest.ids.clone()).await;
        }
    }
}

/// Service accounts of the API server.
#[derive(Debug)]
struct ApiAccounts {
    accounts: Arc<dyn ServiceAccountReads>,
    tokens: TokenStore,
}

#[async_trait]
impl ServiceAccounts for ApiAccounts {
    async fn account(&self, namespace: &str, name: &str) -> Result<ServiceAccountRecord, String> {
        let found = self.accounts.service_account(namespace, name).await;
        let found = found.map_err(|error| Chain(&error).to_string())?;
        found.ok_or_else(|| format!("serviceaccount {name:?} not found"))
    }

    async fn token(&self, request: &TokenRequest) -> Result<Arc<ServiceAccountToken>, String> {
        self.tokens.get(request).await.map_err(|error| Chain(&error).to_string())
    }
}
