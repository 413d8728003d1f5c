//! An API server without streaming lists: the pods of a node are listed in pages, and then watched.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::audit::Audit;
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use model::ports::cluster::{Change, Sink};
use model::ports::pod_api::PodApi as _;
use serde_json::Value;
use testbed::{ControlPlaneOptions, User};

use crate::objects::pod;
use crate::our_node::api_server;

const PODS: &str = "/api/v1/namespaces/shop/pods";
/// One more than the size of a page.
const COUNT: usize = 501;

/// The changes that a sink received, a letter for each: restart, applied, gone, unread, complete.
#[derive(Debug, Default)]
struct ChangeLog(Mutex<String>);

impl ChangeLog {
    fn all(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn wait(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_it(&self.all()) {
            ensure!(Instant::now() < end, "{what}: {}", self.all());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl<T, K> Sink<T, K> for ChangeLog {
    fn receive(&self, change: Change<T, K>) {
        let letter = match change {
            Change::Restarted => 'r',
            Change::Applied(_) => 'a',
            Change::Gone(_) => 'g',
            Change::Unread(_) => 'u',
            Change::Complete => 'c',
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
    }
}

/// Receives all pods, then one that is created and deleted.
async fn receives_all(cluster: &Cluster) -> Result<()> {
    let server = api_server(&cluster.kubeconfig(&User::node("mine"))?).await?;
    let changes = ChangeLog::default();
    let looked = async {
        let all = format!("r{}c", "a".repeat(COUNT));
        changes.wait("all are received, once", |letters| letters == all).await?;
        let api = cluster.api();
        tokio::task::block_in_place(|| api.create(PODS, &pod("another", Some("mine"))))?;
        let one_more = format!("{all}a");
        changes.wait("one more", |letters| letters == one_more).await?;
        let path = format!("{PODS}/another");
        tokio::task::block_in_place(|| api.delete_with_grace(&path, 0))?;
        changes.wait("it is gone", |letters| letters.ends_with('g')).await
    };
    tokio::select! {
        () = server.follow_pods_of("mine", &changes) => unreachable!("it follows for ever"),
        looked = looked => looked,
    }
}

/// The kinds and status codes of the requests to the server, in order.
fn requested(audit: &Audit) -> Result<Vec<(&'static str, u64)>> {
    // A watch has an entry for its begin and its end.
    let mut calls = audit.calls()?;
    let mut noted = BTreeSet::new();
    calls.retain(|call| noted.insert(call["auditID"].to_string()));
    let requested = |call: &Value| {
        let query = call["requestURI"].as_str()?;
        let code = call["responseStatus"]["code"].as_u64()?;
        let is_watch = query.contains("watch=true");
        let kinds =
            [("sendInitialEvents=", "stream"), ("continue=", "next page"), ("limit=500", "page")];
        let kind = kinds.iter().find(|(part, _)| query.contains(part));
        let kind = kind.map(|(_, kind)| *kind).or(is_watch.then_some("watch"))?;
        Some((kind, code))
    };
    Ok(calls.iter().filter_map(requested).collect())
}

// behaviour: API-12
#[test]
fn pods_are_listed_in_pages_when_streaming_lists_are_off() -> Result<()> {
    let audit = Audit::of(User::node("mine").name())?;
    let mut flags = audit.flags();
    flags.push("--feature-gates=WatchList=false".to_owned());
    let options = ControlPlaneOptions { api_server: flags, ..ControlPlaneOptions::default() };
    let cluster = Cluster::start(&options)?;
    cluster.make_namespace("shop")?;
    for number in 0..COUNT {
        cluster.api().create(PODS, &pod(&format!("p{number}"), Some("mine")))?;
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().context("start a runtime")?;
    runtime.block_on(receives_all(&cluster))?;
    drop(runtime);
    assert_eq!(
        requested(&audit)?,
        [("stream", 422), ("page", 200), ("next page", 200), ("watch", 200)]
    );
    cluster.stop()
}
