//! Pods with `AppArmor` profiles.

use anyhow::{Result, ensure};
use e2e::vm_node::{PATIENCE, VmNode, VmOptions};
use testbed::Cache;
use vm::Root;

use super::pod;

/// Forbids something that no workload does otherwise.
const PROFILE: &str = "
#include <tunables/global>
profile ferrolet-test flags=(attach_disconnected,mediate_deleted) {
  file,
  signal,
  deny /forbidden w,
}
";

fn profile(kind: &str) -> String {
    format!("securityContext: {{appArmorProfile: {{{kind}}}}}")
}

/// A node whose kernel has the profile loaded.
fn start() -> Result<VmNode> {
    let unpacked = Cache::from_env()?.parts().vm().join("apparmor");
    let mut root = Root::default();
    root.program("/sbin/apparmor_parser", &unpacked.join("sbin/apparmor_parser"))?;
    root.tree("/etc/apparmor.d", &unpacked.join("etc/apparmor.d"))?;
    root.text("/etc/ferrolet-test.profile", PROFILE);
    let node = VmNode::start_with(VmOptions { root, ..VmOptions::default() })?;
    let load = ["apparmor_parser", "--add", "--skip-cache", "/etc/ferrolet-test.profile"];
    node.vm().output(&load, PATIENCE)?;
    let loaded = node.vm().read("/sys/kernel/security/apparmor/profiles")?;
    ensure!(loaded.contains("ferrolet-test (enforce)"), "{loaded}");
    Ok(node)
}

#[test]
fn pod_runs_only_with_its_apparmor_profile() -> Result<()> {
    let mut node = start()?;
    let localhost = profile("type: Localhost, localhostProfile: ferrolet-test");
    let pods = [
        ("silent", String::new(), "cri-containerd.apparmor.d (enforce)"),
        ("default", profile("type: RuntimeDefault"), "cri-containerd.apparmor.d (enforce)"),
        ("own", localhost.clone(), "ferrolet-test (enforce)"),
        ("free", profile("type: Unconfined"), "unconfined"),
    ];
    for (name, more, _) in &pods {
        let manifest = pod(name, "[sleep, forever]", more);
        node.write_manifest(&format!("{name}.yaml"), &manifest)?;
    }
    let forbidden = pod("forbidden", "[write, /forbidden, text]", &localhost);
    node.write_manifest("forbidden.yaml", &forbidden)?;
    let absent = profile("type: Localhost, localhostProfile: no-such-profile");
    node.write_manifest("absent.yaml", &pod("absent", "[sleep, forever]", &absent))?;
    node.start_agent()?;
    for (name, _, expected) in &pods {
        let running = node.wait_running(name, "main")?;
        let confined = format!("/proc/{}/attr/current", running.pid);
        // From the start of the container's own program.
        node.until(&format!("{name} is {expected}"), || {
            let confined = node.vm().read(&confined)?.trim_end().to_owned();
            Ok(if confined == *expected { Ok(()) } else { Err(confined) })
        })?;
    }
    let (_, code) = node.wait_ended("forbidden")?;
    let printed = node.pod_log("forbidden", "main")?;
    ensure!(code == 125 && printed.contains("Permission denied"), "{code}: {printed}");

    // The runtime knows the loaded profiles; with upstream's kubelet too it reports a missing one.
    let (reason, message) = node.wait_for_status("absent", "it waits", |status| {
        let waiting = &status["containerStatuses"][0]["state"]["waiting"];
        let text = |key: &str| waiting[key].as_str().map(ToOwned::to_owned);
        Some((text("reason")?, text("message")?)).filter(|(reason, _)| reason.contains("Error"))
    })?;
    ensure!(reason == "CreateContainerError", "{reason}: {message}");
    let expected = "failed to get container spec opts: failed to generate apparmor spec opts: \
                    apparmor profile not found no-such-profile";
    ensure!(message == expected, "{message}");
    for name in ["silent", "default", "own", "free", "forbidden", "absent"] {
        node.remove_manifest(&format!("{name}.yaml"))?;
    }
    node.wait_for_no_pod_cgroup()?;
    node.stop()
}

#[test]
fn pod_with_apparmor_profile_is_rejected_without_kernel_support() -> Result<()> {
    let options = VmOptions { parameters: "apparmor=0", ..VmOptions::default() };
    let mut node = VmNode::start_with(options)?;
    let confined = pod("confined", "[sleep, forever]", &profile("type: RuntimeDefault"));
    node.write_manifest("confined.yaml", &confined)?;
    let free = pod("free", "[sleep, forever]", &profile("type: Unconfined"));
    node.write_manifest("free.yaml", &free)?;
    node.start_agent()?;
    node.wait_running("free", "main")?;
    let status = node.status("confined")?;
    let found = ["phase", "reason", "message"].map(|key| status[key].as_str().unwrap_or_default());
    let message = "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host";
    ensure!(found == ["Failed", "AppArmor", message], "{status}");
    node.stop()
}
