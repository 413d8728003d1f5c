//! Users and groups of containers whose images define them, and images that `runAsNonRoot` refuses.

use anyhow::{Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE};
use model::ports::runtime::ImageService;
use serde_json::{Value, json};
use test_images::EXTRA;
use testbed::{Cache, wait};

use crate::container::{lines, status};
use crate::restarts::wait_for_status;

/// An image with a numeric user, and one with the name of the same user.
const IMAGES: [&str; 2] = ["numbered-user", "named-user"];

/// The `hostnameOverride` of a pod that has other names too.
const HOST: &str = "some.where.else";

const REFUSED_UID: &str = "0c6e5f5e-0000-4000-8000-0000000000b8";

/// A container of each image, which prints its user.
const CONTAINERS: &str = "
  containers:
  - name: numbered
    image: ferrolet.test/numbered-user:1
    args: [cat, /proc/self/status]
    securityContext: {runAsNonRoot: true}
  - name: named
    image: ferrolet.test/named-user:1
    args: [cat, /proc/self/status]
";

/// Imports images that only these tests need.
pub(crate) fn import(node: &Node) -> Result<()> {
    let directory = Cache::from_env()?.parts().images_dir().join(EXTRA);
    for name in IMAGES {
        let archive = directory.join(format!("{name}-1.tar")).display().to_string();
        let output = node.instance().ctr(&["images", "import", &archive])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "import {archive}: {stderr}");
        // The CRI plugin sees it a moment later.
        let image = format!("ferrolet.test/{name}:1");
        wait::until(&format!("the runtime has {image}"), PATIENCE, || {
            let found = node.with_runtime(async |runtime| Ok(runtime.image_status(&image).await?));
            Ok(found?.map(drop).ok_or_else(|| "it has not".to_owned()))
        })?;
    }
    Ok(())
}

fn manifest(metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: shop, {metadata}}}\n\
         spec:\n  restartPolicy: Never{spec}"
    )
}

/// Pods with different policies for supplementary groups. The second pod has an additional name.
pub(crate) fn pods() -> [(&'static str, String); 2] {
    let merged = format!("\n  securityContext: {{supplementalGroups: [4000]}}{CONTAINERS}");
    let strict = format!(
        "
  hostname: here
  subdomain: sub
  hostnameOverride: {HOST}
  securityContext: {{supplementalGroups: [4000], supplementalGroupsPolicy: Strict}}{CONTAINERS}
  - {{name: hostname, image: ferrolet.test/workload:1, args: [cat, /proc/sys/kernel/hostname]}}
  - {{name: hosts, image: ferrolet.test/workload:1, args: [cat, /etc/hosts]}}
"
    );
    [("merged", merged), ("strict", strict)]
        .map(|(name, spec)| (name, manifest(&format!("name: {name}"), &spec)))
}

/// The pods have ended, and each container had the user of its image: both images name the same user. The image's
/// groups count only in the first pod.
pub(crate) fn containers_have_the_users_of_their_images(node: &Node) -> Result<()> {
    for (pod, groups) in [("merged", "33 50 4000"), ("strict", "33 4000")] {
        for container in ["numbered", "named"] {
            let found = lines(node, pod, container)?;
            let ids = "33 33 33 33";
            for (name, value) in [("Uid", ids), ("Gid", ids), ("Groups", groups)] {
                ensure!(status(&found, name)? == value, "{name} of {pod}/{container}: {found:?}");
            }
        }
    }
    Ok(())
}

/// The hostname of the second pod is its override, without a domain.
pub(crate) fn name_is_the_one_that_overrides(node: &Node) -> Result<()> {
    let hostname = lines(node, "strict", "hostname")?;
    ensure!(hostname == [HOST], "{hostname:?}");
    let hosts = lines(node, "strict", "hosts")?;
    let names = hosts.last().and_then(|line| line.split_once('\t')).map(|(_, names)| names);
    ensure!(names == Some(HOST), "{hosts:?}");
    Ok(())
}

/// A pod with two containers that must not be root: the user of the first is unknown, the second is root.
pub(crate) fn refused() -> String {
    let spec = "
  containers:
  - name: unknown
    image: ferrolet.test/named-user:1
    args: [env]
    securityContext: {runAsNonRoot: true}
  - name: zero
    image: ferrolet.test/numbered-user:1
    args: [env]
    securityContext: {runAsNonRoot: true, runAsUser: 0}
";
    manifest(&format!("name: refused, uid: {REFUSED_UID}"), spec)
}

/// Neither container of that pod is created, each for another reason, with upstream's messages.
pub(crate) fn are_refused(node: &Node) -> Result<()> {
    let of = |container: &str| {
        format!("(pod: \"refused-{NODE_NAME}_shop({REFUSED_UID})\", container: {container})")
    };
    let unknown = format!(
        "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root {}",
        of("unknown")
    );
    let zero = format!("container's runAsUser breaks non-root policy {}", of("zero"));
    wait_for_status(node, "refused", "both containers are refused", |status| {
        [("unknown", &unknown), ("zero", &zero)].iter().all(|(name, words)| {
            let mut all = status["containerStatuses"].as_array().into_iter().flatten();
            let expected = json!({"reason": "CreateContainerConfigError", "message": words});
            all.any(|one: &Value| one["name"] == *name && one["state"]["waiting"] == expected)
        })
    })?;
    let logs = node.run("find", &["/var/log/pods", "-path", "*/shop_refused-*"])?;
    ensure!(logs.lines().count() == 1, "a container has logs: {logs}");
    Ok(())
}
