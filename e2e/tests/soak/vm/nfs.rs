//! NFS volumes, of the server of the machine's own kernel.

use anyhow::{Context as _, Result, ensure};
use e2e::vm_node::{PATIENCE, VmNode, VmOptions};
use testbed::Cache;
use vm::Root;

/// The exported directory, a file system of its own.
const EXPORT: &str = "/export";
const VOLUMES: &str = "/var/lib/kubelet/pods/";

/// The files that start the server and export the directory, with their content. A program of its package would write
/// the same; the last ones are caches, which it fills on demand. Their entries end in 2038.
const SERVER: [(&str, &str); 7] = [
    // The shortest time in which clients may only reclaim state, in seconds.
    ("/proc/fs/nfsd/nfsv4gracetime", "10\n"),
    ("/proc/fs/nfsd/versions", "-3 +4 +4.1 +4.2\n"),
    ("/proc/fs/nfsd/portlist", "tcp 2049\n"),
    ("/proc/fs/nfsd/threads", "2\n"),
    ("/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 2147483647 all\n"),
    // The root of all exports.
    ("/proc/net/rpc/nfsd.fh/channel", "all 1 \\x00000000 2147483647 /export\n"),
    // fsid, no_subtree_check and insecure; without a uid and a gid for root.
    ("/proc/net/rpc/nfsd.export/channel", "all /export 2147483647 9218 65534 65534 0\n"),
];

/// A pod that writes a file into a volume and copies another one to its log.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  volumes:
  - {name: share, nfs: {server: 127.0.0.1, path: /, readOnly: READ_ONLY}}
  initContainers:
  - name: read
    image: ferrolet.test/workload:1
    args: [cat, /share/greeting]
    volumeMounts: [{name: share, mountPath: /share}]
  - name: write
    image: ferrolet.test/workload:1
    args: [write, WRITTEN, text]
    volumeMounts: [{name: share, mountPath: /share}]
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    volumeMounts: [{name: share, mountPath: /share}]
";

fn manifest(name: &str, read_only: bool, written: &str) -> String {
    let read_only = if read_only { "true" } else { "false" };
    POD.replace("NAME", name).replace("READ_ONLY", read_only).replace("WRITTEN", written)
}

/// A node with an NFS server.
fn start() -> Result<VmNode> {
    let unpacked = Cache::from_env()?.parts().vm().join("nfs-common");
    let mut root = Root::default();
    root.program("/sbin/mount.nfs", &unpacked.join("sbin/mount.nfs"))?;
    root.program("/bin/mount", std::path::Path::new("/usr/bin/mount"))?;
    root.text("/etc/netconfig", "tcp tpi_cots_ord v inet tcp - -\n");
    root.directory(EXPORT);
    let modules = vec!["nfsv4", "nfsd"];
    let node = VmNode::start_with(VmOptions { root, modules, ..VmOptions::default() })?;
    node.vm().output(&["mount", "-t", "tmpfs", "export", EXPORT], PATIENCE)?;
    node.vm().output(&["mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd"], PATIENCE)?;
    for (path, text) in SERVER {
        node.vm().write(path, text).with_context(|| format!("write {text:?} to {path}"))?;
    }
    node.vm().write(&format!("{EXPORT}/greeting"), "hello\n")?;
    Ok(node)
}

/// The NFS mounts in the directories of pods.
fn mounts(node: &VmNode) -> Result<Vec<String>> {
    let table = node.vm().read("/proc/mounts")?;
    let lines = table.lines().filter(|line| line.contains(VOLUMES) && line.contains(" nfs"));
    Ok(lines.map(ToOwned::to_owned).collect())
}

#[test]
fn nfs_volume_is_mounted_for_its_pods_and_unmounted_after_them() -> Result<()> {
    let mut node = start()?;
    node.write_manifest("writer.yaml", &manifest("writer", false, "/share/written"))?;
    node.write_manifest("reader.yaml", &manifest("reader", true, "/tmp/written"))?;
    node.start_agent()?;
    for pod in ["writer", "reader"] {
        node.wait_running(pod, "main")?;
        let greeting = node.pod_log(pod, "read")?;
        ensure!(greeting.ends_with("hello\n"), "{pod}: {greeting}");
    }
    ensure!(node.vm().read(&format!("{EXPORT}/written"))? == "text\n");
    let mounted = mounts(&node)?;
    let options = |start: &str| {
        let is_meant = |line: &&String| {
            line.split(' ').nth(3).is_some_and(|options| options.starts_with(start))
        };
        mounted.iter().filter(is_meant).count()
    };
    ensure!((options("rw,"), options("ro,")) == (1, 1), "{mounted:#?}");

    // An agent that is killed leaves the mounts, and the next one finds them.
    let first = node.agent()?;
    node.vm().signal(first, 9)?;
    node.vm().wait(first, PATIENCE)?.context("the agent ends")?;
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "writer"])?;
    ensure!(mounts(&node)? == mounted, "{mounted:#?} became {:#?}", mounts(&node)?);

    for pod in ["writer.yaml", "reader.yaml"] {
        node.remove_manifest(pod)?;
    }
    node.until("nothing is mounted", || {
        let left = mounts(&node)?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) })
    })?;
    ensure!(
        node.vm().read(&format!("{EXPORT}/written"))? == "text\n",
        "the server keeps its files"
    );
    node.stop()
}
