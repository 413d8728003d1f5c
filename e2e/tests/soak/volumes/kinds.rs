//! Kinds of volumes that need more than a default cluster: block devices, images and trust bundles.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, IMAGE, PODS, pod};
use e2e::container_files::ContainerFiles;
use e2e::node::{Node, PATIENCE};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, Options, wait};

/// The content at the begin of the block device, and at its end.
const TEXT: &str = "written on the disk";
/// The feature gates of trust bundles.
const GATES: &str = "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true";
const BUNDLES: &str = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";

/// A loop device of the machine, detached at the end.
struct Disk<'a> {
    node: &'a Node,
    device: String,
}

impl<'a> Disk<'a> {
    fn attach(node: &'a Node) -> Result<Self> {
        let file: PathBuf = node.instance().dir().join("disk");
        fs::write(&file, format!("{TEXT:<32768}").repeat(2))?;
        let file = file.display().to_string();
        let device = node.run("losetup", &["--find", "--show", &file])?.trim().to_owned();
        Ok(Self { node, device })
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.node.run("losetup", &["--detach", &self.device]) {
            println!("{error:#}");
        }
    }
}

/// A trust bundle of a signer with one new certificate. Returns the certificate.
fn make_bundle(cluster: &ClusterNode, name: &str) -> Result<String> {
    let (key, mut params) = (KeyPair::generate()?, CertificateParams::new(vec![name.to_owned()])?);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key)?.pem();
    let bundle = json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": { "name": format!("ferrolet.test:roots:{name}") },
        "spec": { "signerName": "ferrolet.test/roots", "trustBundle": certificate },
    });
    cluster.api().create(BUNDLES, &bundle)?;
    Ok(certificate)
}

/// Waits until the file has all these certificates and no others, in any order.
fn wait_certificates(cluster: &ClusterNode, pod: &str, certificates: &[String]) -> Result<()> {
    let files = ContainerFiles::of(cluster.node(), cluster.running(pod)?.pid);
    let lines =
        |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let expected = lines(&certificates.concat().replace('\r', ""));
    cluster.node().explained(wait::until("the certificates are there", 3 * PATIENCE, || {
        let found = files.read("/v/roots.pem")?;
        Ok(if lines(&found) == expected { Ok(()) } else { Err(found) })
    }))
}

fn with_volume(name: &str, args: &[&str], volume: &Value) -> Value {
    let mut pod = pod(name, args);
    pod["spec"]["volumes"] = json!([volume]);
    pod["spec"]["volumes"][0]["name"] = "v".into();
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "v", "mountPath": "/v" }]);
    pod
}

fn block_device(cluster: &ClusterNode) -> Result<()> {
    let disk = Disk::attach(cluster.node())?;
    let source = json!({ "mode": "Block", "local": { "path": disk.device } });
    cluster.make_claim("block", &source)?;
    let claim = json!({ "persistentVolumeClaim": { "claimName": "block" } });
    let mut pod = with_volume("block", &["cat", "/dev/data"], &claim);
    let container = &mut pod["spec"]["containers"][0];
    container["volumeMounts"] = json!([]);
    container["volumeDevices"] = json!([{ "name": "v", "devicePath": "/dev/data" }]);
    pod["spec"]["restartPolicy"] = "Never".into();
    cluster.api().create(PODS, &pod)?;
    let path = ClusterNode::pod_path("block");
    let over = cluster.wait_over(&path)?;
    ensure!(over["status"]["phase"] == "Succeeded", "{over:#}");
    cluster.wait_log(&over, "main", |log| log.contains(TEXT))?;
    for part in ["globalMapPath", "volumeMapPath"] {
        cluster.wait_for_event("block", "SuccessfulMountVolume", part)?;
    }
    cluster.api().delete(&path)?;
    cluster.wait_gone(&path, 2 * PATIENCE)?;
    let maps = cluster.node().root_dir().join("plugins/kubernetes.io~local-volume/volumeDevices");
    let maps = maps.display().to_string();
    cluster.node().explained(wait::until("the device is not mapped", 3 * PATIENCE, || {
        let left = cluster
            .node()
            .run("sh", &["-c", &format!("find {maps} -type f 2>/dev/null || true")])?;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    }))?;
    let loops =
        cluster.node().run("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"])?;
    ensure!(!loops.contains(&maps), "a loop device stays: {loops}");
    Ok(())
}

fn image(cluster: &ClusterNode) -> Result<()> {
    let volume = json!({ "image": { "reference": IMAGE, "pullPolicy": "IfNotPresent" } });
    cluster.api().create(PODS, &with_volume("image", &["sleep", "forever"], &volume))?;
    cluster.wait_ready(&ClusterNode::pod_path("image"))?;
    let files = ContainerFiles::of(cluster.node(), cluster.running("image")?.pid);
    let (same, mount) = (files.mode("/v/workload")?, files.mount("/v")?);
    ensure!(same == files.mode("/workload")?, "the image's file is {same}");
    ensure!(mount.split(' ').nth(1).is_some_and(|options| options.starts_with("ro")), "{mount}");
    Ok(())
}

fn trust_bundles(cluster: &ClusterNode) -> Result<()> {
    let mut certificates = vec![make_bundle(cluster, "one")?];
    let source =
        json!({ "signerName": "ferrolet.test/roots", "labelSelector": {}, "path": "roots.pem" });
    let volume = json!({ "projected": { "sources": [{ "clusterTrustBundle": source }] } });
    cluster.api().create(PODS, &with_volume("trust", &["sleep", "forever"], &volume))?;
    cluster.wait_ready_at_last(&ClusterNode::pod_path("trust"))?;
    wait_certificates(cluster, "trust", &certificates)?;
    certificates.push(make_bundle(cluster, "two")?);
    wait_certificates(cluster, "trust", &certificates)
}

fn play(agent: Agent) -> Result<()> {
    let runtime = "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true";
    let flags = [GATES, runtime].map(str::to_owned).to_vec();
    let options = ControlPlaneOptions { api_server: flags, ..ControlPlaneOptions::default() };
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, agent)?;
    cluster.start_agent_with_flags(&[GATES])?;
    cluster.wait_node_ready()?;
    block_device(&cluster).context("block device")?;
    image(&cluster).context("image")?;
    trust_bundles(&cluster).context("trust bundles")?;
    cluster.remove_pods(&["image", "trust"])?;
    cluster.stop()
}

#[test]
fn block_devices_images_and_trust_bundles_reach_containers_with_our_agent() -> Result<()> {
    play(Agent::Ferrolet)
}

#[test]
fn block_devices_images_and_trust_bundles_reach_containers_with_upstream() -> Result<()> {
    play(Agent::Upstream)
}
