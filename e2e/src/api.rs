//! A client of the API server for tests: objects are JSON, named by their paths.

mod recording;

use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::TryStreamExt;
use hyper::Request;
use kube::api::WatchEvent;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::timeout_at;

pub use recording::Recording;

/// The timeout of one request.
const ANSWER: Duration = Duration::from_secs(30);

/// The pause between two requests while waiting: each costs the API server CPU.
const PAUSE: Duration = Duration::from_millis(200);

/// The kind of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch {
    /// Members replace members, `null` removes one.
    Merge,
    /// Like `Merge`, with lists merged by their keys.
    Strategic,
}

/// A blocking client with one user's credentials. Its own runtime drives its connections.
pub struct Api {
    runtime: Runtime,
    client: Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// A client with the credentials of a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime for the client")?;
        let client = runtime.block_on(client(kubeconfig, Some(ANSWER)))?;
        Ok(Self { runtime, client })
    }

    fn request(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let request = Request::builder().method(method).uri(path);
        let request = match body {
            None => request.body(Vec::new()),
            Some((kind, body)) => {
                request.header("content-type", kind).body(serde_json::to_vec(body)?)
            }
        };
        let request = request.context("make a request")?;
        self.runtime
            .block_on(self.client.request(request))
            .with_context(|| format!("{method} {path}"))
    }

    /// Makes an object in a collection.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        self.request("POST", collection, Some(("application/json", object)))
    }

    /// The object, if there is one.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.request("GET", path, None) {
            Err(error) if status_code(&error) == Some(404) => Ok(None),
            other => other.map(Some),
        }
    }

    /// All objects of a collection; a selector can be behind its path.
    pub fn list(&self, collection: &str) -> Result<Vec<Value>> {
        let mut list = self.request("GET", collection, None)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => bail!("{collection} is not a collection"),
        }
    }

    /// Patches an object or one of its subresources, such as `…/status`.
    pub fn patch(&self, path: &str, kind: Patch, change: &Value) -> Result<Value> {
        let kind = match kind {
            Patch::Merge => "application/merge-patch+json",
            Patch::Strategic => "application/strategic-merge-patch+json",
        };
        self.request("PATCH", path, Some((kind, change)))
    }

    /// Deletes an object with its own grace period.
    pub fn delete(&self, path: &str) -> Result<Value> {
        self.request("DELETE", path, None)
    }

    /// Deletes a pod with a grace period in seconds; 0 deletes it at once.
    pub fn delete_with_grace(&self, path: &str, seconds: u32) -> Result<Value> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds,
        });
        self.request("DELETE", path, Some(("application/json", &options)))
    }

    /// Polls an object until `wanted` returns a value. Failed requests are retried.
    pub fn wait<T>(
        &self,
        path: &str,
        what: &str,
        time: Duration,
        mut wanted: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + time;
        loop {
            let seen = self.get(path);
            let value = seen.as_ref().ok().and_then(|object| wanted(object.as_ref()));
            if let Some(value) = value {
                return Ok(value);
            }
            if Instant::now() > end {
                bail!("{what}: not within {time:?}; last seen: {seen:?}");
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Watches an object until `wanted` returns a value for one of its versions. Each version restarts the
    /// timeout, up to ten times.
    pub fn watch<T>(
        &self,
        path: &str,
        what: &str,
        time: Duration,
        mut wanted: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T> {
        let (collection, name) = path.rsplit_once('/').context("a path ends with a name")?;
        let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}");
        let last = Instant::now() + 10 * time;
        let (mut end, mut seen) = (Instant::now() + time, Value::Null);
        self.runtime.block_on(async {
            while Instant::now() < end {
                let request = Request::get(&path).body(Vec::new()).context("make a request")?;
                let events = self.client.request_events::<Value>(request).await;
                let mut events = pin!(events.with_context(|| format!("watch {path}"))?);
                // A watch may go silent. Then another one begins, with the current object.
                while let Ok(Ok(Some(event))) = timeout_at(end.into(), events.try_next()).await {
                    let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                        continue;
                    };
                    if let Some(value) = wanted(&object) {
                        return Ok(value);
                    }
                    if version(&object) != version(&seen) {
                        end = last.min(Instant::now() + time);
                    }
                    seen = object;
                }
                tokio::time::sleep(PAUSE).await;
            }
            bail!("{what}: not within {time:?}; last seen: {seen}")
        })
    }

    /// Waits until an object is gone.
    pub fn wait_gone(&self, path: &str, time: Duration) -> Result<()> {
        let gone = |object: Option<&Value>| object.is_none().then_some(());
        self.wait(path, &format!("{path} is gone"), time, gone)
    }
}

/// A client with the credentials of a kubeconfig; requests that take longer than the timeout fail.
pub(crate) async fn client(kubeconfig: &Path, answer: Option<Duration>) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("read the kubeconfig")?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.context("use the kubeconfig")?;
    config.read_timeout = answer;
    Client::try_from(config).context("make a client")
}

fn version(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}

/// The status code of an API server's error.
pub fn status_code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
