//! The requests that the runtime received, from its own records: bare calls are a floor for agents only if both send
//! the same requests.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use proto::runtime_v1 as cri;
use serde_json::Value;

use super::Direct;

/// The requests for a pod with one container, without fields that the runtime only stores, and values that differ each
/// time.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRequests {
    sandbox: Value,
    container: Value,
}

impl Direct {
    /// The configurations that containerd received for the running pod of that name.
    pub fn pod_requests(&self, pod: &str) -> Result<PodRequests> {
        let id = self.running()?.remove(pod).with_context(|| format!("{pod} does not run"))?;
        self.handle.block_on(async {
            let mut client = self.client.clone();
            let request = cri::ContainerStatusRequest { container_id: id, verbose: true };
            let container =
                client.container_status(request).await.context("inspect a container")?;
            let container = info(&container.into_inner().info)?;
            let id = container["sandboxID"].as_str().context("a container is in a sandbox")?;
            let request =
                cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
            let sandbox = client.pod_sandbox_status(request).await.context("inspect a sandbox")?;
            PodRequests::read(&info(&sandbox.into_inner().info)?["config"], &container["config"])
        })
    }
}

fn info(verbose: &BTreeMap<String, String>) -> Result<Value> {
    let text = verbose.get("info").context("the runtime's verbose status has no info")?;
    serde_json::from_str(text).context("parse the runtime's verbose status")
}

impl PodRequests {
    /// Reads the configurations of the calls.
    fn read(sandbox: &Value, container: &Value) -> Result<Self> {
        let metadata = &sandbox["metadata"];
        let uid = metadata["uid"].as_str().context("a sandbox is of a pod")?;
        let name = metadata["name"].as_str().context("a pod has a name")?;
        // In this order: the UID of a bare pod is its name.
        let plain = |value: &Value| -> Result<Value> {
            let text = value.to_string().replace(uid, "ID").replace(name, "ID");
            Ok(serde_json::from_str(&text)?)
        };
        let (mut sandbox, mut container) = (plain(sandbox)?, plain(container)?);
        for config in [&mut sandbox, &mut container] {
            // Metadata of the agents.
            without(config, &["labels", "annotations"]);
        }
        without(&mut sandbox, &["log_directory"]);
        // The machine adds its own search domains.
        let searches = sandbox["dns_config"]["searches"].as_array_mut();
        if let Some(searches) = searches {
            searches.retain(|one| one.as_str().is_some_and(|one| one.ends_with("cluster.local")));
        }
        // Agents use the image's id.
        without(&mut container, &["image"]);
        for mount in container["mounts"].as_array_mut().into_iter().flatten() {
            without(mount, &["host_path"]);
        }
        // The order of these lists does not matter.
        for list in ["/mounts", "/envs", "/linux/resources/hugepage_limits"] {
            if let Some(list) = container.pointer_mut(list).and_then(Value::as_array_mut) {
                list.sort_by_key(ToString::to_string);
            }
        }
        Ok(Self { sandbox, container })
    }

    /// Fails if an agent sends other requests.
    pub fn ensure_equals(&self, agent: &Self) -> Result<()> {
        let both = [
            ("sandbox", &self.sandbox, &agent.sandbox),
            ("container", &self.container, &agent.container),
        ];
        for (what, bare, requested) in both {
            ensure!(
                bare == requested,
                "bare calls request this {what}: {bare:#}\nan agent: {requested:#}"
            );
        }
        Ok(())
    }
}

fn without(value: &mut Value, keys: &[&str]) {
    if let Value::Object(map) = value {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod_requests(uid: &str, hidden: &[&str], first: &str) -> PodRequests {
        let sandbox = json!({
            "metadata": { "name": "one-0", "uid": uid, "namespace": "bench" },
            "hostname": "one-0",
            "log_directory": format!("/var/log/pods/{uid}"),
            "labels": { "by": uid },
            "dns_config": { "searches": ["bench.svc.cluster.local", uid] },
            "linux": { "cgroup_parent": format!("/kubepods/besteffort/pod{uid}") },
        });
        let mut envs = vec![json!({ "key": "A", "value": "1" }), json!({ "key": "B" })];
        envs.sort_by_key(|one| one["key"] != first);
        let container = json!({
            "image": { "image": uid },
            "annotations": { "by": uid },
            "envs": envs,
            "mounts": [{ "container_path": "/etc/hosts", "host_path": format!("/pods/{uid}") }],
            "linux": { "security_context": { "masked_paths": hidden } },
        });
        PodRequests::read(&sandbox, &container).unwrap()
    }

    #[test]
    fn requests_are_equal_when_only_names_and_ids_differ() {
        let bare = pod_requests("one-0", &["/proc/keys"], "A");
        bare.ensure_equals(&pod_requests("5d3c3f6e", &["/proc/keys"], "B")).unwrap();
        let error =
            bare.ensure_equals(&pod_requests("5d3c3f6e", &[], "A")).unwrap_err().to_string();
        assert!(error.starts_with("bare calls request this container"), "{error}");
    }
}
