//! The environment of containers, seen from inside.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE, one_running};
use testbed::wait;

use crate::image_users;

/// The log lines of an instance of a container whose pod has ended.
pub(crate) fn lines(node: &Node, pod: &str, container: &str) -> Result<Vec<String>> {
    let command = format!("cat /var/log/pods/shop_{pod}-{NODE_NAME}_*/{container}/0.log");
    let log = node.run("sh", &["-c", &command])?;
    Ok(log.lines().filter_map(|line| Some(line.split_once(" stdout F ")?.1.to_owned())).collect())
}

/// The value of a line `NAME:\tvalue`.
pub(crate) fn status(lines: &[String], name: &str) -> Result<String> {
    let found = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let found = found.with_context(|| format!("no {name} in {lines:?}"))?;
    Ok(found.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Runs pods until they have ended.
pub(crate) fn ended(node: &mut Node, pods: &[(&str, String)]) -> Result<()> {
    for (name, manifest) in pods {
        node.write_manifest(&format!("{name}.yaml"), manifest)?;
    }
    node.start_agent()?;
    for (name, _) in pods {
        node.wait_for_log(&["Pod terminated and cleaned up", &format!("shop/{name}-{NODE_NAME}")])?;
    }
    Ok(())
}

pub(crate) fn pod(name: &str, spec: &str, containers: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, labels: {{app: web}}}}\n\
         spec:\n  restartPolicy: Never\n  {spec}\n  containers:\n"
    );
    for (name, args, more) in containers {
        let image = "ferrolet.test/workload:1";
        let lines = [
            format!("  - name: {name}"),
            format!("image: {image}"),
            format!("args: {args}"),
            (*more).to_owned(),
        ];
        text.push_str(&lines.join("\n    "));
        text.push('\n');
    }
    text
}

const MEMORY_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"];

/// A pod with a container for each setting, which prints what it finds.
fn requesting_pod() -> String {
    let limit = MEMORY_LIMITS.into_iter().find(|path| Path::new(path).exists());
    let limit = format!("[cat, {}]", limit.unwrap_or(MEMORY_LIMITS[1]));
    pod(
        "asked",
        "hostname: here\n  subdomain: sub\n  setHostnameAsFQDN: true\n  \
         hostAliases: [{ip: 10.1.2.3, hostnames: [alias]}]\n  \
         dnsConfig: {searches: [my.example], options: [{name: ndots, value: '2'}]}\n  \
         securityContext: {runAsUser: 1000, runAsGroup: 2000, fsGroup: 3000, \
         supplementalGroups: [4000], seccompProfile: {type: RuntimeDefault}, \
         sysctls: [{name: net.ipv4.ip_local_port_range, value: '5000 6000'}]}",
        &[
            (
                "status",
                "[cat, /proc/self/status]",
                "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}",
            ),
            ("hostname", "[cat, /proc/sys/kernel/hostname]", ""),
            ("hosts", "[cat, /etc/hosts]", ""),
            ("resolver", "[cat, /etc/resolv.conf]", ""),
            ("sysctl", "[cat, /proc/sys/net/ipv4/ip_local_port_range]", ""),
            (
                "mounts",
                "[cat, /proc/self/mounts]",
                "securityContext: {readOnlyRootFilesystem: true}",
            ),
            ("limited", &limit, "resources: {limits: {memory: 64Mi}}"),
            ("score", "[cat, /proc/self/oom_score_adj]", ""),
            (
                "environment",
                "[env]",
                "env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, \
                 {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, \
                 {name: APP, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['app']\"}}}, \
                 {name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}, \
                 {name: ALL, value: $(POD) at $(IP)}]\n    resources: {requests: {cpu: 250m}}",
            ),
        ],
    )
}

// behaviour: STW-40, CON-22, CON-51, CON-54
#[test]
fn pod_has_the_hostname_user_and_limits_of_its_spec() -> Result<()> {
    let mut node = Node::start()?;
    node.configure("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n")?;
    image_users::import(&node)?;
    let [merged, strict] = image_users::pods();
    ended(&mut node, &[("asked", requesting_pod()), merged, strict])?;
    image_users::containers_have_the_users_of_their_images(&node)?;
    image_users::name_is_the_one_that_overrides(&node)?;
    let of = |container: &str| lines(&node, "asked", container);
    let found = of("status")?;
    let expected = [
        ("Uid", "1000 1000 1000 1000"),
        ("Gid", "2000 2000 2000 2000"),
        ("Groups", "2000 3000 4000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapBnd", "0000000000000400"),
        ("NSpid", "1"),
    ];
    for (name, value) in expected {
        ensure!(status(&found, name)? == value, "{name}: {found:?}");
    }
    let fqdn = "here.sub.shop.svc.cluster.local";
    ensure!(of("hostname")? == [fqdn]);
    let environment = of("environment")?;
    let value =
        |name: &str| environment.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let ip = value("IP").context("no IP")?;
    ensure!(value("POD") == Some(&format!("asked-{NODE_NAME}")), "{environment:?}");
    ensure!((value("APP"), value("CPU")) == (Some("web"), Some("250")), "{environment:?}");
    ensure!(value("ALL") == Some(&format!("asked-{NODE_NAME} at {ip}")), "{environment:?}");
    let hosts = of("hosts")?;
    ensure!(hosts[0] == "# Kubernetes-managed hosts file.", "{hosts:?}");
    for line in [format!("{ip}\t{fqdn}\there"), "10.1.2.3\talias".to_owned()] {
        ensure!(hosts.contains(&line), "no {line:?} in {hosts:?}");
    }
    let resolver = of("resolver")?;
    let searches = "search shop.svc.cluster.local svc.cluster.local cluster.local";
    ensure!(resolver.contains(&"nameserver 10.96.0.10".to_owned()), "{resolver:?}");
    ensure!(
        resolver.iter().any(|line| line.starts_with(searches) && line.ends_with(" my.example")),
        "{resolver:?}"
    );
    ensure!(resolver.contains(&"options ndots:2".to_owned()), "{resolver:?}");
    ensure!(of("sysctl")? == ["5000\t6000"], "{:?}", of("sysctl")?);
    let mounts = of("mounts")?;
    let root = mounts.iter().find(|line| line.split(' ').nth(1) == Some("/")).context("no root")?;
    ensure!(root.split(' ').nth(3).is_some_and(|options| options.starts_with("ro,")), "{root}");
    ensure!(of("limited")? == ["67108864"], "{:?}", of("limited")?);
    ensure!(of("score")? == ["999"], "{:?}", of("score")?);
    status_has_users(&node)?;
    node.stop()
}

/// The status of the pod `requested` has the users of its containers.
fn status_has_users(node: &Node) -> Result<()> {
    let output = node.ferrolet(&["get", "pods", "-A", "-o", "json"])?;
    let list: serde_json::Value = serde_json::from_str(&output).context("read the pod list")?;
    let name = format!("asked-{NODE_NAME}");
    let mut pods = list["items"].as_array().into_iter().flatten();
    let requested = pods.find(|pod| pod["metadata"]["name"] == name);
    let statuses = requested.and_then(|pod| pod["status"]["containerStatuses"].as_array());
    let statuses = statuses.with_context(|| format!("no statuses in {list:#}"))?;
    let expected =
        serde_json::json!({"uid": 1000, "gid": 2000, "supplementalGroups": [2000, 3000, 4000]});
    for status in statuses {
        ensure!(status["user"]["linux"] == expected, "{status:#}");
    }
    Ok(())
}

#[test]
fn pod_shares_only_the_requested_host_namespaces() -> Result<()> {
    let mut node = Node::start()?;
    let all = pod(
        "all",
        "hostNetwork: true\n  hostPID: true\n  hostIPC: true",
        &[
            ("status", "[cat, /proc/self/status]", "securityContext: {privileged: true}"),
            ("hosts", "[cat, /etc/hosts]", ""),
            ("hostname", "[cat, /proc/sys/kernel/hostname]", ""),
        ],
    );
    let shared = pod(
        "shared",
        "shareProcessNamespace: true",
        &[
            ("one", "[cat, /proc/self/status]", ""),
            (
                "two",
                "[cat, /proc/self/status]",
                "securityContext: {seccompProfile: {type: Unconfined}}",
            ),
            ("port", "[env]", "ports: [{containerPort: 80, hostPort: 8099}]"),
        ],
    );
    ended(&mut node, &[("all", all), ("shared", shared)])?;
    let found = lines(&node, "all", "status")?;
    ensure!(status(&found, "NSpid")? != "1" && status(&found, "Seccomp")? == "0", "{found:?}");
    let bounding = u64::from_str_radix(&status(&found, "CapBnd")?, 16)?;
    ensure!(bounding & (1 << 21) != 0, "no CAP_SYS_ADMIN in {bounding:x}");
    let hosts = lines(&node, "all", "hosts")?;
    ensure!(hosts[0] == "# Kubernetes-managed hosts file (host network).", "{hosts:?}");
    let host = node.run("cat", &["/proc/sys/kernel/hostname"])?;
    ensure!(lines(&node, "all", "hostname")? == [host.trim()], "{host}");
    for container in ["one", "two"] {
        let found = lines(&node, "shared", container)?;
        ensure!(status(&found, "NSpid")? != "1", "{found:?}");
        ensure!(status(&found, "Uid")? == "0 0 0 0", "{found:?}");
    }
    node.stop()
}

#[test]
fn user_namespace_pod_has_no_host_ids_and_keeps_its_mapping() -> Result<()> {
    let mut node = Node::start()?;
    let users = pod(
        "users",
        "hostUsers: false",
        &[("ids", "[cat, /proc/self/uid_map]", ""), ("main", "[sleep, forever]", "")],
    )
    .replace("restartPolicy: Never", "restartPolicy: Always");
    node.write_manifest("users.yaml", &users)?;
    node.start_agent()?;
    let main = |containers: &[e2e::containerd::RuntimeContainer]| {
        let of_name: Vec<_> = containers.iter().filter(|one| one.name == "main").cloned().collect();
        one_running(&of_name)
    };
    let first = node.wait_for_containers("users", "the pod runs", main)?;
    let owner = format!("/proc/{}/uid_map", first.pid);
    let map = node.run("cat", &[&owner])?;
    let map: Vec<u32> = map.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    ensure!(map == [0, 65_536, 65_536], "{map:?}");
    let root = node.root_dir();
    let pods = root.join("pods").display().to_string();
    let find = |node: &Node| node.run("find", &[&pods, "-name", "userns"]);
    let file = find(&node)?;
    let kept = std::fs::read_to_string(file.trim())?;
    ensure!(kept.contains(r#""hostId":65536"#), "{kept}");
    node.kill_agent()?;
    node.run("kill", &["-9", &first.pid.to_string()])?;
    node.start_agent()?;
    let second = node.wait_for_containers("users", "it runs again", |containers| {
        main(containers).filter(|running| running.id != first.id)
    })?;
    let map = node.run("cat", &[&format!("/proc/{}/uid_map", second.pid)])?;
    ensure!(map.split_whitespace().nth(1) == Some("65536"), "{map}");
    node.remove_manifest("users.yaml")?;
    node.wait_for_log(&["Pod terminated and cleaned up", "users"])?;
    // `find` fails while the directories of the pod are being removed.
    node.explained(wait::until("no file of its users is left", PATIENCE, || {
        let left = find(&node);
        Ok(if matches!(&left, Ok(left) if left.is_empty()) {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    }))?;
    node.stop()
}

/// A container that is not created has a hosts file and a termination message file, and no log. Returns its pod's UID.
fn files_of_a_failed_container_equal_upstreams(node: &Node) -> Result<String> {
    let logs = node.run("find", &["/var/log/pods", "-path", "*/shop_root-*"])?;
    let uid = logs.trim().rsplit('_').next().unwrap_or_default();
    ensure!(logs.lines().count() == 1 && !uid.is_empty(), "{logs}");
    let directory = node.root_dir().join("pods").join(uid).display().to_string();
    let files = node.run("find", &[&directory, "-mindepth", "1", "-printf", "%P %m\n"])?;
    let mut files: Vec<&str> = files.lines().collect();
    files.sort_unstable();
    let expected =
        ["containers 750", "containers/main 750", "etc-hosts 644", "plugins 750", "volumes 750"];
    ensure!(files == expected, "{files:?}");
    Ok(uid.to_owned())
}

// behaviour: ACT-127, CON-55
#[test]
fn root_and_sysctl_refusals_are_reported_and_counters_survive_agent_restart() -> Result<()> {
    let mut node = Node::start()?;
    let root = pod("root", "securityContext: {runAsNonRoot: true}", &[("main", "[env]", "")]);
    let sysctl = pod(
        "sysctl",
        "securityContext: {sysctls: [{name: net.core.somaxconn, value: '9'}]}",
        &[("main", "[env]", "")],
    );
    let counted = pod("counted", "", &[("main", "[sleep, forever]", "")])
        .replace("restartPolicy: Never", "restartPolicy: Always");
    image_users::import(&node)?;
    let refused = image_users::refused();
    let pods = [("root", root), ("sysctl", sysctl), ("counted", counted), ("refused", refused)];
    for (name, manifest) in pods {
        node.write_manifest(&format!("{name}.yaml"), &manifest)?;
    }
    node.start_agent()?;
    node.wait_for_log(&["Failed", "image will run as root"])?;
    let pod_name = format!("root-{NODE_NAME}");
    let described = node.wait_for_answer(
        &["describe", &format!("shop/{pod_name}")],
        "container has runAsNonRoot and image will run as root",
    )?;
    ensure!(described.contains("CreateContainerConfigError"), "{described}");
    let uid = files_of_a_failed_container_equal_upstreams(&node)?;
    let whole = format!(
        "container has runAsNonRoot and image will run as root (pod: \"{pod_name}_shop({uid})\", container: main)"
    );
    ensure!(described.contains(&whole), "no {whole} in {described}");
    image_users::are_refused(&node)?;
    node.wait_for_log(&["SysctlForbidden", "forbidden sysctl", "not allowlisted"])?;
    let mut before = node.wait_running("counted")?;
    for agent_was_away in [false, true] {
        if agent_was_away {
            node.kill_agent()?;
        }
        node.run("kill", &["-9", &before.pid.to_string()])?;
        if agent_was_away {
            node.start_agent()?;
        }
        before = node.wait_for_containers("counted", "it runs again", |containers| {
            one_running(containers).filter(|running| running.id != before.id)
        })?;
    }
    let logs = node.run("sh", &["-c", "ls /var/log/pods/shop_counted-*/main"])?;
    // Earlier dead instances may be removed.
    ensure!(logs.split_whitespace().rev().take(2).eq(["2.log", "1.log"]), "{logs}");
    node.stop()
}

#[test]
fn allowed_sysctls_and_default_seccomp_come_from_the_configuration() -> Result<()> {
    let mut node = Node::start()?;
    node.configure("allowedUnsafeSysctls: [net.core.*]\nseccompDefault: true")?;
    let sysctl = "securityContext: {sysctls: [{name: net.core.somaxconn, value: '9'}]}";
    let set = pod("set", sysctl, &[("main", "[cat, /proc/sys/net/core/somaxconn]", "")]);
    let free = "securityContext: {seccompProfile: {type: Unconfined}}";
    let status_file = "[cat, /proc/self/status]";
    let node_name = "env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]";
    let filtered = pod(
        "filtered",
        "hostname: filtered",
        &[("silent", status_file, ""), ("free", status_file, free), ("node", "[env]", node_name)],
    );
    // A pod's name may be four times as long as a hostname.
    let long = format!("{}-{}", "n".repeat(62), "m".repeat(40));
    let named = pod(&long, "", &[("main", "[cat, /proc/sys/kernel/hostname]", "")]);
    ended(&mut node, &[("set", set), ("filtered", filtered), (&long, named)])?;
    ensure!(lines(&node, "set", "main")? == ["9"], "{:?}", lines(&node, "set", "main")?);
    for (container, mode) in [("silent", "2"), ("free", "0")] {
        let found = lines(&node, "filtered", container)?;
        ensure!(status(&found, "Seccomp")? == mode, "{container}: {found:?}");
    }
    let environment = lines(&node, "filtered", "node")?;
    ensure!(environment.contains(&format!("NODE={NODE_NAME}")), "{environment:?}");
    // The 63rd character is a hyphen, which is trimmed.
    let hostname = lines(&node, &long, "main")?;
    ensure!(hostname == ["n".repeat(62)], "{hostname:?}");
    node.stop()
}
