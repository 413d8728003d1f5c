//! A client of the API server: objects are JSON, named by their paths.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use hyper::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Calls under way at a time.
pub(crate) const AT_A_TIME: usize = 32;

/// A blocking client with one user's credentials. Its own runtime drives its connections.
pub(crate) struct Api {
    pub(crate) tasks: Runtime,
    pub(crate) client: Client,
}

/// A client does not print.
impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// A client with the credentials of a kubeconfig.
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self> {
        let tasks = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime for the client")?;
        let kubeconfig = Kubeconfig::read_from(kubeconfig).context("read the kubeconfig")?;
        let client = tasks.block_on(async {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            anyhow::Ok(Client::try_from(config)?)
        });
        Ok(Self { client: client.context("make a client")?, tasks })
    }

    /// Makes a call and waits for the answer.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.tasks.block_on(call(&self.client, method, path, body))
    }

    /// The object, if there is one.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        present(self.call("GET", path, &Value::Null))
    }

    /// Deletes an object, if it exists.
    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        present(self.call("DELETE", path, &Value::Null)).map(drop)
    }

    /// Makes a namespace and its default service account: no controller creates that one here.
    pub(crate) fn make_namespace(&self, name: &str) -> Result<()> {
        let object = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        self.call("POST", "/api/v1/namespaces", &object("Namespace", name))?;
        self.call("POST", &accounts, &object("ServiceAccount", "default")).map(drop)
    }
}

/// Makes a call with each of these methods, paths and bodies, many at a time.
pub(crate) async fn calls(
    client: &Client,
    all: impl IntoIterator<Item = (&'static str, String, Value)>,
) -> Result<()> {
    let all = all.into_iter().map(|(method, path, body)| async move {
        call(client, method, &path, &body).await.map(drop)
    });
    stream::iter(all).buffer_unordered(AT_A_TIME).try_collect().await
}

/// Makes a call.
pub(crate) async fn call(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(bytes).context("make a request")?;
    client.request::<Value>(request).await.with_context(|| format!("{method} {path}"))
}

/// A missing object is not an error.
fn present(answer: Result<Value>) -> Result<Option<Value>> {
    match answer {
        Err(error) if is_not_found(&error) => Ok(None),
        answer => answer.map(Some),
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 404)
}
