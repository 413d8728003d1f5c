//! Steps with the commands of `docs/install.md`.

use anyhow::{Result, ensure};
use testbed::Cache;

use crate::add_ons::{update_volume, wait_all_ready};
use crate::cluster::Cluster;
use crate::commands::commands;
use crate::lifecycle::join_second;
use crate::node::Node;
use crate::settled::{ensure_same_containers, settled};

/// The command of the page that checks the configuration.
const CHECK: &str = "./ferrolet config check /var/lib/kubelet/config.yaml";

/// The commands of the page.
struct Page {
    /// From the kubelet to ferrolet.
    there: Vec<String>,
    back: Vec<String>,
}

impl Page {
    fn of(cluster: &Cluster) -> Result<Self> {
        let page = &cluster.install_page;
        let there = commands(page, "Replace the kubelet")?;
        let back = commands(page, "Go back to the kubelet")?;
        ensure!((there.len(), back.len()) == (5, 2), "other commands: {there:?} {back:?}");
        ensure!(page.contains(CHECK), "the page has another command of the check");
        Ok(Self { there, back })
    }
}

/// The path of the upstream kubelet.
fn upstream() -> Result<String> {
    Ok(Cache::from_env()?.parts().program("kubelet").display().to_string())
}

pub(crate) fn join_upstream(cluster: &Cluster) -> Result<()> {
    // The link to ferrolet is replaced, not its target.
    let replace = "rm -f /usr/bin/kubelet /usr/bin/ferrolet; install $0 /usr/bin/kubelet";
    let second = &cluster.second;
    second.run(&["bash", "-euc", replace, &upstream()?])?;
    second.run(&["systemctl", "start", "kubelet"])?;
    join_second(cluster)?;
    wait_all_ready(cluster, second)
}

/// There, back, and there again, with the same containers and volumes that are updated.
pub(crate) fn on_worker(cluster: &Cluster) -> Result<()> {
    let (page, second) = (Page::of(cluster)?, &cluster.second);
    second.script_in(&cluster.programs, CHECK)?;
    let before = settled(cluster)?;
    let ways = [
        (&page.there, "+ferrolet", "there"),
        (&page.back, "", "back"),
        (&page.there, "+ferrolet", "again"),
    ];
    for (commands, version, label) in ways {
        second.script_in(&cluster.programs, &commands.join("\n"))?;
        ensure_version(cluster, second, version)?;
        ensure_same_containers(cluster, &before, label)?;
        // The kubelet updates volumes once a minute.
        if !version.is_empty() {
            update_volume(cluster, label)?;
        }
    }
    Ok(())
}

/// Back to the kubelet and to ferrolet again. Static pods may restart, all others keep their containers.
pub(crate) fn on_control_plane(cluster: &Cluster) -> Result<()> {
    let (page, first) = (Page::of(cluster)?, &cluster.first);
    first.run(&["install", &upstream()?, "/usr/bin/kubelet.upstream"])?;
    let before = settled(cluster)?.without_static();
    for (commands, version, label) in
        [(&page.back, "", "first-back"), (&page.there, "+ferrolet", "first-there")]
    {
        first.script_in(&cluster.programs, &commands.join("\n"))?;
        ensure_version(cluster, first, version)?;
        ensure_same_containers(cluster, &before, label)?;
    }
    Ok(())
}

/// Waits until a node runs an agent whose version ends so.
pub(crate) fn ensure_version(cluster: &Cluster, node: &Node, end: &str) -> Result<()> {
    let name = node.name();
    cluster.wait(&format!("{name} has the version v1.36.3{end}"), || {
        let node = cluster.get(&["node", name])?;
        let version = &node["status"]["nodeInfo"]["kubeletVersion"];
        let version = version.as_str().unwrap_or_default();
        let rest = version.strip_prefix("v1.36.3").unwrap_or("another one");
        let is_it = if end.is_empty() { rest.is_empty() } else { rest.starts_with(end) };
        Ok(if is_it { Ok(()) } else { Err(version.to_owned()) })
    })
}
