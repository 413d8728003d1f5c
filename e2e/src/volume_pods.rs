//! Pods with volumes of all kinds that need no driver, and the observable state of these volumes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::wait;

use crate::api::Patch;
use crate::cluster_node::{ClusterNode, NAMESPACE, PODS, pod};
use crate::container_files::{ContainerFiles, pod_mounts};

/// How long the files of a removed pod may stay: upstream removes them once a minute.
const CLEANED: Duration = Duration::from_secs(150);

/// The placeholder for a directory named after a time.
const MOMENT: &str = "..MOMENT";

/// A pod, named after its volumes.
#[derive(Debug)]
pub struct VolumePod {
    /// Its name.
    pub name: &'static str,
    volumes: Value,
    /// The mounts of its container.
    mounts: Value,
    /// Other fields of the specification of the pod.
    more: Value,
}

fn of(name: &'static str, volume: Value) -> VolumePod {
    with_mount(name, volume, json!({ "mountPath": "/v" }))
}

/// A pod with one volume and one mount.
fn with_mount(name: &'static str, mut volume: Value, mut mount: Value) -> VolumePod {
    volume["name"] = "v".into();
    mount["name"] = "v".into();
    VolumePod { name, volumes: json!([volume]), mounts: json!([mount]), more: json!({}) }
}

impl VolumePod {
    fn with(self, more: Value) -> Self {
        Self { more, ..self }
    }

    fn object(&self) -> Value {
        let mut object = pod(self.name, &["sleep", "forever"]);
        object["metadata"]["labels"] = json!({ "app": self.name });
        let spec = &mut object["spec"];
        spec["terminationGracePeriodSeconds"] = 1.into();
        spec["volumes"] = self.volumes.clone();
        spec["containers"][0]["volumeMounts"] = self.mounts.clone();
        for (field, value) in self.more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        object
    }
}

/// The pods. `host` is a directory of the node with a directory `kept`.
pub fn volume_pods(host: &str) -> Vec<VolumePod> {
    [local_pods(), host_pods(host), object_pods(), projected_pods(), part_pods()]
        .into_iter()
        .flatten()
        .collect()
}

fn group() -> Value {
    json!({ "securityContext": { "fsGroup": 2000 } })
}

fn local_pods() -> Vec<VolumePod> {
    let memory = || json!({ "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } });
    let limits = json!([{
        "name": "main", "image": crate::cluster_node::IMAGE, "args": ["sleep", "forever"],
        "resources": { "limits": { "memory": "32Mi" } },
        "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
    }]);
    vec![
        of("disk", json!({ "emptyDir": {} })),
        of("disk-limit", json!({ "emptyDir": { "sizeLimit": "64Mi" } })),
        of("disk-group", json!({ "emptyDir": {} })).with(group()),
        of("memory", memory()),
        of("memory-group", memory()).with(group()),
        of("memory-pod-limit", json!({ "emptyDir": { "medium": "Memory" } }))
            .with(json!({ "containers": limits })),
    ]
}

fn host_pods(host: &str) -> Vec<VolumePod> {
    let path = |path: &str, kind: &str| json!({ "hostPath": { "path": format!("{host}/{path}"), "type": kind } });
    let claim = |name: &str| json!({ "persistentVolumeClaim": { "claimName": name } });
    let read_only = json!({ "mountPath": "/v", "readOnly": true });
    let propagated = json!({ "mountPath": "/v", "mountPropagation": "HostToContainer" });
    vec![
        of("host-made", path("made", "DirectoryOrCreate")),
        of("host-file", path("file", "FileOrCreate")),
        with_mount("host-read-only", path("kept", "Directory"), read_only),
        with_mount("host-propagated", path("kept", ""), propagated),
        of("claim-local", claim("local")),
        of("claim-local-group", claim("local-group")).with(group()),
        of("claim-host", claim("host")),
    ]
}

fn object_pods() -> Vec<VolumePod> {
    let items = json!([{ "key": "colour", "path": "a/b/colour", "mode": 0o600 }]);
    vec![
        of("config", json!({ "configMap": { "name": "settings" } })),
        of("config-items", json!({ "configMap": { "name": "settings", "items": items } })),
        of("config-none", json!({ "configMap": { "name": "none", "optional": true } })),
        of("config-mode", json!({ "configMap": { "name": "settings", "defaultMode": 0o400 } }))
            .with(group()),
        of("secret", json!({ "secret": { "secretName": "keys" } })),
        of("secret-group", json!({ "secret": { "secretName": "keys", "defaultMode": 0o440 } }))
            .with(group()),
    ]
}

fn projected_pods() -> Vec<VolumePod> {
    let fields = json!([
        { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
        { "path": "deep/cpu", "mode": 0o400, "resourceFieldRef": {
            "containerName": "main", "resource": "requests.cpu", "divisor": "1m" } },
    ]);
    let token = json!({ "serviceAccountToken": { "audience": "vault", "path": "token" } });
    let all = json!([
        { "configMap": { "name": "settings" } },
        { "secret": { "name": "keys", "items": [{ "key": "key", "path": "keys/key" }] } },
        { "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ]);
    let projected = |sources: Value| json!({ "projected": { "sources": sources } });
    let user =
        json!({ "securityContext": { "runAsUser": 1000 }, "automountServiceAccountToken": true });
    vec![
        of("fields", json!({ "downwardAPI": { "items": fields } })),
        of("projected", projected(all)),
        of("token", projected(json!([token])))
            .with(json!({ "automountServiceAccountToken": true })),
        of("token-user", projected(json!([token]))).with(user),
    ]
}

/// Parts of volumes, and volumes inside others.
fn part_pods() -> Vec<VolumePod> {
    let disk = json!({ "name": "disk", "emptyDir": {} });
    let config = json!({ "name": "config", "configMap": { "name": "settings" } });
    let env =
        json!([{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
    let parts = json!([
        { "name": "disk", "mountPath": "/v", "subPath": "a/b" },
        { "name": "disk", "mountPath": "/own", "subPathExpr": "logs/$(POD)" },
        { "name": "config", "mountPath": "/v-file", "subPath": "colour" },
    ]);
    let main = json!([{
        "name": "main", "image": crate::cluster_node::IMAGE, "args": ["sleep", "forever"], "env": env,
        "volumeMounts": parts,
    }]);
    let nested = json!([
        { "name": "config", "mountPath": "/v" }, { "name": "disk", "mountPath": "/v/inner" },
    ]);
    let both = || json!([disk, config]);
    vec![
        VolumePod {
            name: "parts",
            volumes: both(),
            mounts: json!([]),
            more: json!({ "containers": main }),
        },
        VolumePod { name: "nested", volumes: both(), mounts: nested, more: json!({}) },
    ]
}

impl ClusterNode {
    /// Makes the objects and directories that the pods need. Returns the directory of the node for [`volume_pods`].
    pub fn make_volume_sources(&self) -> Result<String> {
        let host = self.node().instance().dir().join("host").display().to_string();
        let make = format!(
            "mkdir -p {host}/kept {host}/local {host}/local-group && echo kept > {host}/kept/file"
        );
        self.node().run("sh", &["-c", &make])?;
        let root = json!({ "data": { "ca.crt": "the root" } });
        for (resource, kind, name, data) in [
            (
                "configmaps",
                "ConfigMap",
                "settings",
                json!({ "data": { "colour": "red", "size": "big" } }),
            ),
            ("configmaps", "ConfigMap", "kube-root-ca.crt", root),
            ("secrets", "Secret", "keys", json!({ "stringData": { "key": "s3cret" } })),
        ] {
            let mut object = data;
            object["apiVersion"] = "v1".into();
            object["kind"] = kind.into();
            object["metadata"] = json!({ "name": name });
            self.api().create(&format!("/api/v1/namespaces/{NAMESPACE}/{resource}"), &object)?;
        }
        let local = |name: &str| json!({ "local": { "path": format!("{host}/{name}") } });
        self.make_claim("local", &local("local"))?;
        self.make_claim("local-group", &local("local-group"))?;
        self.make_claim("host", &json!({ "hostPath": { "path": format!("{host}/kept") } }))?;
        Ok(host)
    }

    /// Makes a claim with a persistent volume, bound as a controller binds them.
    pub fn make_claim(&self, name: &str, source: &Value) -> Result<()> {
        let claims = format!("/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims");
        let (amount, volume) = (json!({ "storage": "1Mi" }), format!("pv-{name}"));
        let mode = source["mode"].as_str().unwrap_or("Filesystem");
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
                "volumeMode": mode, "resources": { "requests": amount },
            },
        });
        let claim = self.api().create(&claims, &claim)?;
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name,
            "uid": claim["metadata"]["uid"],
        });
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"], "capacity": amount, "claimRef": reference, "volumeMode": mode,
            "persistentVolumeReclaimPolicy": "Retain",
        });
        for (kind, part) in
            source.as_object().into_iter().flatten().filter(|(kind, _)| *kind != "mode")
        {
            spec[kind] = part.clone();
            if kind == "local" {
                // The API server requires the node of a local volume.
                let node = json!({ "key": "kubernetes.io/hostname", "operator": "Exists" });
                let terms = json!([{ "matchExpressions": [node] }]);
                spec["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": terms } });
            }
        }
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume }, "spec": spec,
        });
        self.api().create("/api/v1/persistentvolumes", &object)?;
        let bound = json!({ "status": { "phase": "Bound" } });
        let volume = format!("/api/v1/persistentvolumes/{volume}/status");
        self.api().patch(&volume, Patch::Merge, &bound)?;
        // Upstream panics when a bound claim has no capacity.
        let (modes, capacity) = (json!(["ReadWriteOnce"]), json!({ "storage": "1Mi" }));
        let bound =
            json!({ "status": { "phase": "Bound", "accessModes": modes, "capacity": capacity } });
        self.api().patch(&format!("{claims}/{name}/status"), Patch::Merge, &bound).map(drop)
    }

    /// Makes the pods, and waits until they are ready.
    pub fn make_volume_pods(&self, pods: &[VolumePod]) -> Result<()> {
        for pod in pods {
            self.api().create(PODS, &pod.object()).with_context(|| pod.name.to_owned())?;
        }
        pods.iter().try_for_each(|pod| self.wait_ready_at_last(&Self::pod_path(pod.name)).map(drop))
    }

    /// Removes pods, and waits until all their directories and mounts are gone.
    pub fn remove_volume_pods(&self, pods: &[VolumePod]) -> Result<()> {
        let mut uids = Vec::new();
        for pod in pods {
            uids.push(self.uid(pod.name)?);
            self.api().delete(&Self::pod_path(pod.name))?;
        }
        for pod in pods {
            self.wait_gone(&Self::pod_path(pod.name), 2 * crate::node::PATIENCE)?;
        }
        let directory = self.node().root_dir().join("pods").display().to_string();
        self.node().explained(wait::until("directories and mounts are gone", CLEANED, || {
            let mut left = self.node().names_in(&directory)?;
            left.extend(pod_mounts(self.node())?);
            left.retain(|one| uids.iter().any(|uid| one.contains(uid)));
            Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
        }))
    }

    fn uid(&self, pod: &str) -> Result<String> {
        let found =
            self.api().get(&Self::pod_path(pod))?.with_context(|| format!("no pod {pod}"))?;
        Ok(found["metadata"]["uid"].as_str().context("a pod has a uid")?.to_owned())
    }

    /// The observable state of a pod's volumes, without values that differ each time: files with mode, owner and
    /// content, mounts of the node, and mounts of the container.
    pub fn volume_layout(&self, pod: &str) -> Result<Value> {
        let uid = self.uid(pod)?;
        let own = self.node().root_dir().join("pods").join(&uid).display().to_string();
        let host = self.node().instance().dir().display().to_string();
        let plain = |text: &str| {
            without_moments(&text.replace(&own, "POD").replace(&uid, "UID").replace(&host, "NODE"))
        };
        let find = format!(
            "cd {own} && for d in volumes volumeDevices plugins volume-subpaths; do \
             [ ! -e $d ] || find $d -printf '%p %y %m %U:%G %l\\n'; done"
        );
        // The content of tokens differs each time.
        let sums = format!("cd {own} && find volumes -type f ! -name token -exec md5sum {{}} +");
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for line in self.node().run("sh", &["-c", &find])?.lines() {
            let line = plain(line);
            let (path, facts) = line.split_once(' ').unwrap_or((&line, ""));
            files.insert(path.to_owned(), facts.trim().to_owned());
        }
        let mut content: BTreeMap<String, String> = BTreeMap::new();
        for line in self.node().run("sh", &["-c", &sums])?.lines() {
            let (sum, path) = line.split_once("  ").context("a sum and a path")?;
            content.insert(plain(path), sum.to_owned());
        }
        let of_node = pod_mounts(self.node())?;
        let of_node =
            of_node.iter().filter(|line| line.contains(&uid)).map(|line| mount(&plain(line)));
        let files_of_container = ContainerFiles::of(self.node(), self.running(pod)?.pid);
        let table = files_of_container.table()?;
        let of_container = table.lines().map(|line| mount(&plain(line)));
        let of_container = of_container.filter(|(path, _)| is_of_volume(path));
        Ok(json!({
            "files": files,
            "content": content,
            "mounts of the node": of_node.collect::<BTreeMap<_, _>>(),
            "mounts of the container": of_container.collect::<BTreeMap<_, _>>(),
        }))
    }

    /// What must not change when another agent takes over: the container, its mounts and the node's mounts with their
    /// kernel ids, and the inodes of files that are not rewritten.
    pub fn volume_identity(&self, pod: &str) -> Result<Vec<String>> {
        let uid = self.uid(pod)?;
        let container = self.running(pod)?;
        let own = self.node().root_dir().join("pods").join(&uid).display().to_string();
        let mut all = vec![format!("container {} process {}", container.id, container.pid)];
        let of_node = pod_mounts(self.node())?;
        all.extend(of_node.into_iter().filter(|line| line.contains(&uid)));
        all.extend(
            ContainerFiles::of(self.node(), container.pid).table()?.lines().map(str::to_owned),
        );
        // A newly started agent requests new tokens.
        let find = format!(
            "cd {own} && for d in $(ls -d volumes/* volume-subpaths 2>/dev/null | grep -v projected); do \
             find $d -printf '%p %i %m %U:%G %l\\n'; done"
        );
        all.extend(self.node().run("sh", &["-c", &find])?.lines().map(str::to_owned));
        all.sort();
        Ok(all)
    }
}

fn is_of_volume(path: &str) -> bool {
    ["/v", "/own", "/var/run/secrets"].iter().any(|begin| path.starts_with(begin))
}

/// Path, file system and options of a line of the kernel's mount table, without ids of mounts and peer groups.
fn mount(line: &str) -> (String, String) {
    let (mount, file_system) = line.split_once(" - ").unwrap_or((line, ""));
    let fields: Vec<&str> = mount.split(' ').collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    let groups = fields.iter().skip(6).map(|group| group.split(':').next().unwrap_or_default());
    let groups: Vec<&str> = groups.collect();
    (field(4).to_owned(), format!("{} {} {} {file_system}", field(3), field(5), groups.join(",")))
}

/// A text with the same name for all directories that are named after a time, such as `..2026_11_19_02_06_47.1234`.
fn without_moments(text: &str) -> String {
    let mut parts = text.split("..20");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit() && !"_.".contains(letter));
        plain.push_str(MOMENT);
        plain.push_str(&part[end.unwrap_or(part.len())..]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_left_out() {
        assert_eq!(
            without_moments("a/..2026_11_19_02_06_47.12/k ..2026_1.2"),
            "a/..MOMENT/k ..MOMENT"
        );
        let line = "36 35 98:0 /root /mnt rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue";
        let expected = "/root rw,noatime shared,master ext3 /dev/root rw,errors=continue";
        assert_eq!(mount(line), ("/mnt".to_owned(), expected.to_owned()));
        assert_eq!(volume_pods("/h").len(), 25);
    }
}
