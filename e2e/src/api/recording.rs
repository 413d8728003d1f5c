//! A watch in the background that records every version of the objects of a collection.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use futures_util::TryStreamExt as _;
use hyper::Request;
use kube::Client;
use kube::api::WatchEvent;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{Api, PAUSE, version};

/// The recorded versions.
#[derive(Debug, Default)]
struct Versions {
    objects: Vec<Value>,
    /// Why the watch ended.
    broken: Option<String>,
}

/// A watch. It ends when it is dropped.
#[derive(Debug)]
pub struct Recording {
    versions: Arc<Mutex<Versions>>,
    task: JoinHandle<()>,
}

impl Api {
    /// Records the versions of a collection's objects from now on; deleted objects with their last version.
    pub fn record(&self, collection: &str) -> Result<Recording> {
        let list = self.request("GET", collection, None)?;
        let from = version(&list).as_str().context("a list has a version")?.to_owned();
        let versions = Arc::<Mutex<Versions>>::default();
        let (client, kept) = (self.client.clone(), Arc::clone(&versions));
        let collection = collection.to_owned();
        let task = self.runtime.spawn(async move {
            let Err(error) = watch(&client, &collection, from, &kept).await;
            lock(&kept).broken = Some(format!("{error:#}"));
        });
        Ok(Recording { versions, task })
    }
}

impl Recording {
    /// The versions so far, in the order of the API server. Fails if the watch has missed some.
    pub fn objects(&self) -> Result<Vec<Value>> {
        let versions = lock(&self.versions);
        ensure!(versions.broken.is_none(), "the watch failed: {:?}", versions.broken);
        Ok(versions.objects.clone())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches until an error; a connection that ends or goes silent is replaced without a gap.
async fn watch(
    client: &Client,
    collection: &str,
    mut from: String,
    kept: &Mutex<Versions>,
) -> Result<Infallible> {
    loop {
        let path = format!("{collection}?watch=true&resourceVersion={from}");
        let request = Request::get(&path).body(Vec::new()).context("make a request")?;
        let events = client.request_events::<Value>(request).await;
        let mut events = pin!(events.with_context(|| format!("watch {path}"))?);
        while let Ok(Some(event)) = events.try_next().await {
            let (WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object)) = event
            else {
                bail!("{event:?}");
            };
            version(&object).as_str().context("an object has a version")?.clone_into(&mut from);
            lock(kept).objects.push(object);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn lock(versions: &Mutex<Versions>) -> MutexGuard<'_, Versions> {
    versions.lock().unwrap_or_else(PoisonError::into_inner)
}
