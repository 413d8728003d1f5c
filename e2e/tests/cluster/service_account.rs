//! Our Pod GC controller as a program in a pod: it finds the API server through the environment, and its identity in
//! the files of its service account, which change while it runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::https::{Credentials, Port, file, token};
use e2e::node::{PATIENCE, program};
use serde_json::json;
use testbed::{Command, ControlPlaneOptions, Instance, wait};

use crate::collector::{FREQUENT_PASSES, deployed, explained, holder, wait_for_a_pass};

const NAMESPACE: &str = "pod-gc";
const ACCOUNT: &str = "/api/v1/namespaces/kube-system/serviceaccounts/ferrolet-pod-gc";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// The mount point of service accounts. An instance has its own directory below `/var/run`.
const MOUNTED: &str = "/var/run/secrets/kubernetes.io";

/// A token that is valid as long as a secret exists. Creates the secret.
fn token_of(cluster: &Cluster, secret: &str) -> Result<String> {
    let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret } });
    let made = cluster.api().create(SECRETS, &object)?;
    let uid = &made["metadata"]["uid"];
    let bound = json!({ "apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid });
    token(cluster, ACCOUNT, &json!({ "boundObjectRef": bound }))
}

/// The files of a service account.
struct Account {
    directory: PathBuf,
}

impl Account {
    /// Mounts an empty service account directory for the programs of an instance.
    fn mount(instance: &Instance) -> Result<Self> {
        let directory = instance.dir().join("serviceaccount");
        fs::create_dir(&directory)?;
        let account = Self { directory };
        let script = "mkdir -p \"$1\" && ln -s \"$2\" \"$1/serviceaccount\"";
        let current = account.current().display().to_string();
        let command = Command::new("sh").args(["-c", script, "sh", MOUNTED, &current]);
        let output = instance.run(&command)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(account)
    }

    fn current(&self) -> PathBuf {
        self.directory.join("current")
    }

    /// Replaces the files atomically, as a kubelet does.
    fn put(&self, version: &str, token: &str, authority: &Path) -> Result<()> {
        let files = self.directory.join(version);
        fs::create_dir(&files)?;
        fs::write(files.join("token"), token)?;
        fs::write(files.join("namespace"), "kube-system")?;
        fs::copy(authority, files.join("ca.crt"))?;
        let next = self.directory.join("next");
        symlink(version, &next)?;
        fs::rename(next, self.current()).context("put the files of a service account in place")
    }
}

// behaviour: PGC-140
#[test]
fn renewed_token_is_used_after_a_refusal() -> Result<()> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    cluster.make_namespace(NAMESPACE)?;
    deployed(&cluster)?;
    let (first, second) = (token_of(&cluster, "first")?, token_of(&cluster, "second")?);
    let authority = PathBuf::from(file(&cluster, "ca.crt"));
    let account = Account::mount(cluster.instance())?;
    account.put("1", &first, &authority)?;

    let server = cluster.control_plane().server();
    let server = server.strip_prefix("https://").context("an address")?;
    let (host, port) = server.split_once(':').context("a port")?;
    let state = cluster.instance().dir().join("state").display().to_string();
    let command = Command::new(program("ferrolet")?.display().to_string())
        .args(["pod-gc", "--secure-port=0", "--state-dir", &state, FREQUENT_PASSES])
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port);
    let process = cluster.instance().spawn("pod-gc", &command)?;
    explained(wait_for_a_pass(&cluster, NAMESPACE), &process)?;
    let leader = holder(cluster.api())?.context("there is a leader")?;

    account.put("2", &second, &authority)?;
    let (first, second) = (Credentials::Token(first), Credentials::Token(second));
    let server = Port::new(&cluster, server.parse()?)?;
    let both = [first.clone(), second];
    assert_eq!(server.statuses(&both, "/version")?, [200, 200]);
    cluster.api().delete(&format!("{SECRETS}/first"))?;
    // The API server caches a valid token for some seconds.
    wait::until("the first token is refused", PATIENCE, || {
        let status = server.get(&first, "/version")?.0;
        Ok(if status == 401 { Ok(()) } else { Err(status.to_string()) })
    })?;
    explained(wait_for_a_pass(&cluster, NAMESPACE), &process)?;
    assert_eq!(server.statuses(&both, "/version")?, [401, 200]);
    // The leader did not even change.
    assert_eq!(holder(cluster.api())?.as_ref(), Some(&leader));
    ensure!(process.is_alive()?, "it ended: {}", process.log());
    cluster.stop()
}
