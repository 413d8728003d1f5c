//! A static pod with every kind of volume that needs no API server.

use std::fs;

use anyhow::{Result, ensure};
use e2e::container_files::{ContainerFiles, pod_mounts};
use e2e::node::{NODE_NAME, Node, PATIENCE};
use testbed::wait;

const POD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: volumes, namespace: shop, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 2000}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: made, hostPath: {path: HOST/made, type: DirectoryOrCreate}}
  - {name: file, hostPath: {path: HOST/file, type: FileOrCreate}}
  - {name: kept, hostPath: {path: HOST/kept, type: Directory}}
  - {name: device, hostPath: {path: /dev/zero, type: CharDevice}}
  - name: fields
    downwardAPI:
      defaultMode: 0400
      items:
      - {path: labels, fieldRef: {fieldPath: metadata.labels}}
      - {path: deep/cpu, mode: 0644, resourceFieldRef: {containerName: main, resource: requests.cpu, divisor: 1m}}
  - name: all
    projected:
      sources:
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
      - downwardAPI: {items: [{path: space, fieldRef: {fieldPath: metadata.namespace}}]}
  initContainers:
  - name: first
    image: ferrolet.test/workload:1
    args: [write, /disk/first, hello]
    volumeMounts: [{name: disk, mountPath: /disk}]
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    resources: {requests: {cpu: 250m}}
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /part, subPath: a/b}
    - {name: disk, mountPath: /own, subPathExpr: logs/$(POD)}
    - {name: disk, mountPath: /view, readOnly: true}
    - {name: memory, mountPath: /memory}
    - {name: made, mountPath: /made}
    - {name: file, mountPath: /etc/settings}
    - {name: kept, mountPath: /kept, readOnly: true}
    - {name: device, mountPath: /device}
    - {name: fields, mountPath: /fields}
    - {name: all, mountPath: /all}
";

/// A pod whose volume source does not match its declared type.
const WAITING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: waiting, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: wrong, hostPath: {path: HOST/kept/file, type: Directory}}]
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    volumeMounts: [{name: wrong, mountPath: /wrong}]
";

fn has_content(files: ContainerFiles<'_>) -> Result<()> {
    let name = format!("volumes-{NODE_NAME}");
    let expected = [
        ("/disk/first", "hello\n"),
        ("/view/first", "hello\n"),
        ("/fields/labels", "app=\"web\""),
        ("/fields/deep/cpu", "250"),
        ("/all/name", &name),
        ("/all/space", "shop"),
        ("/kept/file", "kept"),
        ("/etc/settings", ""),
    ];
    for (path, content) in expected {
        let found = files.read(path)?;
        ensure!(found == content, "{path} is {found:?}");
    }
    Ok(())
}

fn has_modes_and_options(files: ContainerFiles<'_>) -> Result<()> {
    let modes = [
        ("/disk", "2777 0:2000"),
        // The root of a tmpfs is sticky.
        ("/memory", "3777 0:2000"),
        ("/fields/labels", "440 0:2000"),
        ("/fields/deep/cpu", "644 0:2000"),
        // A host path belongs to the host.
        ("/made", "755 0:0"),
        ("/etc/settings", "644 0:0"),
    ];
    for (path, expected) in modes {
        let found = files.mode(path)?;
        ensure!(found == expected, "{path} is {found}");
    }
    let memory = files.mount("/memory")?;
    ensure!(memory.starts_with("tmpfs rw") && memory.contains("size=1024k"), "{memory}");
    for path in ["/kept", "/view", "/fields", "/all"] {
        let mount = files.mount(path)?;
        ensure!(mount.split(' ').nth(1).is_some_and(|all| all.starts_with("ro")), "{path} {mount}");
    }
    ensure!(files.mount("/fields")?.starts_with("tmpfs "), "{}", files.mount("/fields")?);
    ensure!(files.mount("/disk")?.split(' ').nth(1).is_some_and(|all| all.starts_with("rw")));
    Ok(())
}

// behaviour: VOL-70, VOL-71
#[test]
fn static_pod_finds_its_volumes_after_a_crash_and_leaves_no_mounts() -> Result<()> {
    let mut node = Node::start()?;
    let host = node.instance().dir().join("host");
    fs::create_dir_all(host.join("kept"))?;
    fs::write(host.join("kept/file"), "kept")?;
    let host = host.display().to_string();
    node.write_manifest("volumes.yaml", &POD.replace("HOST", &host))?;
    node.write_manifest("waiting.yaml", &WAITING.replace("HOST", &host))?;
    node.start_agent()?;
    let before = node.wait_container_running("volumes", "main")?;
    let files = ContainerFiles::of(&node, before.pid);
    node.explained(has_content(files).and_then(|()| has_modes_and_options(files)))?;
    files.write("/part/file", "part")?;
    files.write("/own/file", "own")?;
    ensure!(files.read("/disk/a/b/file")? == "part", "a subPath lies in its volume");
    ensure!(files.read(&format!("/disk/logs/volumes-{NODE_NAME}/file"))? == "own");
    node.wait_for_log(&["FailedMount", "hostPath type check failed", "is not a directory"])?;

    let (mounts, table) = (pod_mounts(&node)?, files.table()?);
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "volumes"])?;
    let files = ContainerFiles::of(&node, before.pid);
    let after = node.wait_container_running("volumes", "main")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    ensure!(pod_mounts(&node)? == mounts, "{mounts:#?} became {:#?}", pod_mounts(&node)?);
    ensure!(files.table()? == table, "the container has other mounts");
    has_content(files)?;
    ensure!(files.read("/part/file")? == "part");

    for manifest in ["volumes.yaml", "waiting.yaml"] {
        node.remove_manifest(manifest)?;
    }
    let pods = node.root_dir().join("pods").display().to_string();
    node.explained(wait::until("no directory of a pod is left", PATIENCE, || {
        let left = node.names_in(&pods)?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    }))?;
    ensure!(pod_mounts(&node)?.is_empty(), "{:#?}", pod_mounts(&node)?);
    ensure!(node.read(&format!("{host}/kept/file"))? == "kept", "a host path stays");
    node.stop()
}
