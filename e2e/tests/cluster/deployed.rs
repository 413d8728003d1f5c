//! The pods of `deploy/pod-gc` on a node of the upstream kubelet: with their user, service account, rights, volume and
//! probes.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::NEEDED;
use e2e::agent::Agent;
use e2e::api::Patch;
use e2e::audit::Audit;
use e2e::cluster_node::{ClusterNode, NAMESPACE, PODS};
use e2e::https::{Credentials, Port};
use e2e::node::{PATIENCE, program};
use e2e::plane::with_controllers;
use serde_json::{Value, json};
use test_images::{Entry, Image, Layer};
use testbed::{ControlPlaneOptions, wait};

use crate::collector::{FREQUENT_PASSES, holder, wait_for_a_pass};
use crate::deployment::{DEPLOYMENT, shown_to};
use crate::objects::{node, pod};

/// The controllers that a Deployment needs, without pod garbage collection.
const CONTROLLERS: [&str; 4] = [
    "deployment-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
];

/// The user of the pods.
const USER: &str = "system:serviceaccount:kube-system:ferrolet-pod-gc";

/// Libraries of the image's base that a program may be linked to, in addition to the loader: the Dockerfile
/// names them.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libgcc_s.so.1", "libm.so.6"];

/// The timeout of the deletion of an orphaned pod.
const ORPHAN: Duration = Duration::from_mins(3);

/// The Deployment's file in `deploy/pod-gc`.
const FILE: &str = "deployment.yaml";

/// Adds flags to a copy of the Deployment, so that the test does not wait for upstream's periods.
fn shorten_periods(copy: &Path) -> Result<()> {
    let path = copy.join(FILE);
    let text = fs::read_to_string(&path).context("read the Deployment")?;
    let args = "          args:\n";
    ensure!(text.matches(args).count() == 1, "{text}");
    let more = [FREQUENT_PASSES, "--quarantine-time=2s"];
    let more = more.map(|flag| format!("            - {flag}\n")).concat();
    fs::write(&path, text.replace(args, &format!("{args}{more}")))?;
    Ok(())
}

/// An image of the program as built here, with its libraries and no other file.
fn image(name: &str) -> Result<Image> {
    let directory = tempfile::tempdir().context("make a directory")?;
    let ferrolet = directory.path().join("ferrolet");
    // Most of it is debug information.
    let mut strip = process::Command::new("strip");
    let strip = strip.arg("--strip-debug").arg("-o").arg(&ferrolet).arg(program("ferrolet")?);
    ensure!(strip.status().context("run strip")?.success(), "{strip:?} failed");
    let file = |path: &Path| -> Result<Entry> {
        let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Ok(Entry::File { content, mode: 0o755 })
    };
    let output = process::Command::new("ldd").arg(&ferrolet).output().context("run ldd")?;
    let libraries = String::from_utf8(output.stdout).context("ldd prints text")?;
    let mut layer = Layer::default().with("usr/local/bin/ferrolet", file(&ferrolet)?);
    for line in libraries.lines() {
        ensure!(!line.contains("not found"), "{line}");
        // Libraries without a path belong to the kernel.
        let Some(path) = line.split_whitespace().find(|word| word.starts_with('/')) else {
            continue;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_there = LIBRARIES.contains(&name) || name.starts_with("ld-linux");
        ensure!(is_there, "the base of the image does not have {path}");
        layer = layer.with(path, file(Path::new(path))?);
    }
    Ok(Image::new(name, layer).entrypoint(&["ferrolet"]))
}

/// Imports the image that the Deployment names.
fn import_image(cluster: &ClusterNode, copy: &Path) -> Result<()> {
    let deployment = fs::read_to_string(copy.join(FILE)).context("read the Deployment")?;
    let mut lines = deployment.lines();
    let name = lines.find_map(|line| line.trim().strip_prefix("image: ")).context("an image")?;
    let instance = cluster.node().instance();
    let archive =
        image(&format!("docker.io/library/{name}"))?.write(&instance.dir().join("own"))?;
    let output = instance.ctr(&["images", "import", &archive.display().to_string()])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Does the work of kube-proxy: forwards the address of the API server's service to the API server.
fn serve_the_service(cluster: &ClusterNode) -> Result<String> {
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let service =
        cluster.api().wait(path, "the API server has a service", PATIENCE, |service| {
            service?["spec"]["clusterIP"].as_str().map(ToOwned::to_owned)
        })?;
    let server = cluster.control_plane().server();
    let server = server.strip_prefix("https://").context("an address")?;
    let rule = ["--destination", &service, "--protocol", "tcp", "--dport", "443"];
    let to = ["--jump", "DNAT", "--to-destination", server];
    let chain = ["--table", "nat", "--append", "PREROUTING"];
    cluster.node().run("iptables", &[&chain[..], &rule, &to].concat())?;
    Ok(service)
}

/// The pods of the Deployment that are not being deleted.
fn pods(cluster: &ClusterNode) -> Result<Vec<Value>> {
    let selector = "labelSelector=app.kubernetes.io%2Fname%3Dferrolet-pod-gc";
    let mut pods =
        cluster.api().list(&format!("/api/v1/namespaces/kube-system/pods?{selector}"))?;
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(pods)
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

/// Adds the state of the pods to an error.
fn explained<T>(cluster: &ClusterNode, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let mut error = cluster.node().explained::<()>(Err(error)).expect_err("it is an error");
        for pod in pods(cluster).unwrap_or_default() {
            let log = cluster.log(&pod, "pod-gc").unwrap_or_else(|error| format!("{error:#}"));
            error = error.context(format!("{}: {:#}\n{log}", name(&pod), pod["status"]));
        }
        error
    })
}

/// Waits until all replicas of the Deployment are ready by their probes, and returns them.
fn wait_available(cluster: &ClusterNode) -> Result<Vec<Value>> {
    let wanted = |deployment: Option<&Value>| {
        let (spec, status) = (&deployment?["spec"], &deployment?["status"]);
        let all = ["replicas", "updatedReplicas", "availableReplicas"];
        let is_done = all.iter().all(|which| status[which] == spec["replicas"]);
        let is_seen = status["observedGeneration"] == deployment?["metadata"]["generation"];
        (is_done && is_seen).then_some(())
    };
    let what = "its pods are available";
    explained(cluster, cluster.api().wait(DEPLOYMENT, what, 5 * PATIENCE, wanted))?;
    let pods = pods(cluster)?;
    ensure!(pods.len() == 2, "{pods:#?}");
    Ok(pods)
}

/// Waits until one of these pods is the leader.
fn wait_leader<'a>(cluster: &ClusterNode, pods: &'a [Value]) -> Result<&'a Value> {
    let leads = wait::until("one of them is the leader", PATIENCE, || {
        let holder = holder(cluster.api())?.unwrap_or_default();
        let host = holder.split('_').next().unwrap_or_default();
        Ok(pods.iter().find(|pod| name(pod) == host).ok_or_else(|| holder.clone()))
    });
    explained(cluster, leads)
}

/// An orphaned pod is deleted. An event and the leader's `why` command say so.
fn orphan_is_deleted(cluster: &ClusterNode, leader: &Value) -> Result<()> {
    let (api, path) = (cluster.api(), ClusterNode::pod_path("orphan"));
    api.create("/api/v1/nodes", &node("goes"))?;
    api.create(PODS, &pod("orphan", Some("goes")))?;
    let status = json!({ "status": { "phase": "Running" } });
    api.patch(&format!("{path}/status"), Patch::Merge, &status)?;
    api.delete("/api/v1/nodes/goes")?;
    explained(cluster, api.wait_gone(&path, ORPHAN))?;
    let event = explained(cluster, cluster.wait_for_event("orphan", "PodGC", "goes"))?;
    ensure!(event["source"]["component"] == "ferrolet-pod-gc", "{event:#}");
    ensure!(event["source"]["host"] == leader["metadata"]["name"], "{event:#}");
    let container = cluster.running(name(leader))?.id;
    let why = ["ferrolet", "pod-gc", "why", "shop/orphan"];
    let exec = ["tasks", "exec", "--exec-id", "why", &container];
    let output = cluster.node().instance().ctr(&[&exec[..], &why].concat())?;
    let (text, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said = "its node goes no longer existed";
    ensure!(
        text.starts_with("pod shop/orphan was removed ") && text.contains(said),
        "{text}{error}"
    );
    Ok(())
}

/// Checks that no probe failed for long, and that no pod was restarted.
fn never_restarted(cluster: &ClusterNode) -> Result<()> {
    for pod in pods(cluster)? {
        let container = &pod["status"]["containerStatuses"][0];
        ensure!(container["restartCount"] == 0 && container["ready"] == true, "{pod:#}");
    }
    Ok(())
}

/// A user with the rights for metrics, created by the documented commands.
fn prometheus(cluster: &ClusterNode) -> Result<Credentials> {
    cluster.make_namespace("monitoring")?;
    cluster.kubectl(&["create", "serviceaccount", "prometheus", "--namespace", "monitoring"])?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pod-gc.md");
    let docs = fs::read_to_string(&docs).with_context(|| format!("read {}", docs.display()))?;
    let commands: Vec<&str> =
        docs.lines().filter_map(|line| line.strip_prefix("kubectl create ")).collect();
    ensure!(commands.len() == 2, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        cluster.kubectl(&[&["create"][..], &words].concat())?;
    }
    let token = cluster.kubectl(&["create", "token", "prometheus", "--namespace", "monitoring"])?;
    Ok(Credentials::Token(token.trim().to_owned()))
}

/// Each pod's port serves health to all clients and metrics to authorized ones; the leader counts deleted pods.
fn check_ports(cluster: &ClusterNode, pods: &[Value], leader: &Value, service: &str) -> Result<()> {
    let reader = prometheus(cluster)?;
    let whos = [Credentials::Anonymous, Credentials::Token("nonsense".to_owned()), reader.clone()];
    for pod in pods {
        let port = &pod["spec"]["containers"][0]["ports"][0]["containerPort"];
        let port = u16::try_from(port.as_u64().context("a port")?)?;
        let address: IpAddr = pod["status"]["podIP"].as_str().context("an address")?.parse()?;
        let port = Port::new(cluster, SocketAddr::new(address, port))?.self_signed();
        for path in ["/healthz", "/livez", "/readyz"] {
            ensure!(port.get(&Credentials::Anonymous, path)? == (200, "ok".to_owned()), "{path}");
        }
        ensure!(port.statuses(&whos, "/metrics")? == [403, 401, 200], "{}", name(pod));
        let metrics = port.get(&reader, "/metrics")?.1;
        let leads = u8::from(name(pod) == name(leader));
        let calls = |code: u16| format!("rest_client_requests_total{{code=\"{code}\"");
        let mut expected = vec![
            format!("leader_election_master_status{{name=\"ferrolet-pod-gc\"}} {leads}"),
            format!("{},host=\"{service}", calls(200)),
        ];
        if leads == 1 {
            let orphans = "{namespace=\"shop\",reason=\"orphaned\"} 1";
            expected.push(format!("pod_gc_collector_force_delete_pods_total{orphans}"));
        }
        for line in expected {
            ensure!(metrics.contains(&line), "{line} is not in {metrics}");
        }
        for code in [401, 403] {
            ensure!(!metrics.contains(&calls(code)), "something was refused: {metrics}");
        }
    }
    Ok(())
}

/// Checks that the API requests use all rights of the roles, and that none was refused.
fn nothing_was_forbidden(audit: &Audit) -> Result<()> {
    audit.nothing_was_refused()?;
    let calls = audit.calls()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = calls.iter().filter(|call| call["objectRef"].is_object());
    let requested: BTreeSet<[String; 3]> = about
        .map(|call| {
            let object = &call["objectRef"];
            let resource = match object["subresource"].as_str() {
                Some(part) => format!("{}/{part}", text(&object["resource"])),
                None => text(&object["resource"]),
            };
            [text(&object["apiGroup"]), resource, text(&call["verb"])]
        })
        // This API server streams lists; other servers return pages.
        .filter(|[_, _, verb]| verb != "list")
        .collect();
    let granted = NEEDED.iter().filter(|one| one.verb != "list");
    let granted = granted.map(|one| [one.group, one.resource, one.verb].map(ToOwned::to_owned));
    assert_eq!(requested, granted.collect());
    Ok(())
}

// behaviour: PGC-139
#[test]
fn deployed_pod_gc_works_with_its_roles_and_limits() -> Result<()> {
    let audit = Audit::of(USER)?;
    let options = ControlPlaneOptions {
        api_server: audit.flags(),
        scheduler: Some(Vec::new()),
        ..with_controllers(&CONTROLLERS)
    };
    let mut cluster = ClusterNode::start(&options)?;
    // The upstream kubelet needs 20 s and more to register a node, but uses an existing one at once.
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.hand_over_to(Agent::Upstream)?;
    cluster.wait_schedulable()?;
    let service = serve_the_service(&cluster)?;
    let copy = shown_to(cluster.node().instance())?;
    shorten_periods(Path::new(&copy))?;
    import_image(&cluster, Path::new(&copy))?;
    cluster.kubectl(&["apply", "-k", &copy])?;

    let first = wait_available(&cluster)?;
    let leader = wait_leader(&cluster, &first)?;
    orphan_is_deleted(&cluster, leader)?;
    check_ports(&cluster, &first, leader, &service)?;
    never_restarted(&cluster)?;

    // New pods replace them, and one of the new ones gets the lease.
    cluster.kubectl(&["-n", "kube-system", "rollout", "restart", "deployment/ferrolet-pod-gc"])?;
    let second = wait_available(&cluster)?;
    ensure!(second.iter().all(|pod| first.iter().all(|gone| name(gone) != name(pod))));
    wait_leader(&cluster, &second)?;
    explained(&cluster, wait_for_a_pass(&cluster, NAMESPACE))?;
    never_restarted(&cluster)?;
    nothing_was_forbidden(&audit)?;
    println!("{} calls of the pods", audit.calls()?.len());
    cluster.stop()
}
