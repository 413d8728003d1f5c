//! The number of runtime calls of a node with many pods and few changes. A whole minute with 1,000 pods is tested with
//! a simulated clock (`crates/ferrolet/tests/agent/calls.rs`).

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::observed::ContainerState;
use model::ports::runtime::{ContainerFilter, ContainerService};
use serde_json::Value;
use testbed::wait;

use crate::programs::{Hollow, Program};

const PODS: u64 = 200;
/// A sixth of the minute in which there may be five calls.
const IDLE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_mins(3);

fn calls(counts: &Value, method: &str) -> u64 {
    counts[method]["calls"].as_u64().unwrap_or(0)
}

fn total(counts: &Value) -> u64 {
    let methods = counts.as_object().into_iter().flatten();
    methods.map(|(method, _)| calls(counts, method)).sum()
}

/// Waits until there was no call for two seconds.
fn quiet(hollow: &Hollow) -> Result<()> {
    let mut last = total(&hollow.command("")?);
    let mut still = 0;
    wait::every(Duration::from_millis(200), "the agent is quiet", LONG, || {
        let now = total(&hollow.command("")?);
        still = if now == last { still + 1 } else { 0 };
        last = now;
        Ok(if still >= 10 { Ok(()) } else { Err(format!("{now} calls")) })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn idle_pods_cost_few_calls_and_a_death_no_unfiltered_list() -> Result<()> {
    let place = tempfile::tempdir().context("make a directory")?;
    let (root, manifests) = (place.path(), place.path().join("manifests"));
    fs::create_dir(&manifests).context("make a directory for manifests")?;
    for pod in 0..PODS {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{pod}}}\nspec:\n  containers:\n  \
             - {{name: main, image: \"ferrolet.test/workload:1\", args: [sleep, forever]}}\n"
        );
        fs::write(manifests.join(format!("{pod}.yaml")), manifest).context("write a manifest")?;
    }
    let hollow = Hollow::start(root, &["--image", "ferrolet.test/workload:1"])?;
    let config = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         staticPodPath: {}\ncontainerRuntimeEndpoint: unix://{}\npodLogsDir: {}\n\
         enableServer: false\nfailCgroupV1: false\nfailSwapOn: false\nhealthzPort: 0\n\
         cgroupsPerQOS: false\nenforceNodeAllocatable: []\nevictionHard: {{}}\nmakeIPTablesUtilChains: false\nmaxPods: 2000\n",
        manifests.display(),
        hollow.socket(),
        root.join("pods").display(),
    );
    fs::write(root.join("config.yaml"), config).context("write the configuration")?;
    let agent = Program::start_agent(root, |command| {
        command.args(["run", "--hostname-override", "node", "-v=0", "--config"]);
        command.arg(root.join("config.yaml")).arg("--root-dir").arg(root.join("root"));
        command.stdout(Stdio::null()).stderr(Stdio::null())
    })?;
    let begun = Instant::now();
    wait::until("all pods run", LONG, || {
        let started = calls(&hollow.command("")?, "StartContainer");
        Ok(if started == PODS { Ok(()) } else { Err(format!("{started} started")) })
    })?;
    eprintln!("{PODS} pods run after {:?}", begun.elapsed());
    quiet(&hollow)?;

    hollow.command("reset")?;
    std::thread::sleep(IDLE);
    let idle = hollow.command("reset")?;
    // A relist, which takes two calls, and a status call.
    ensure!(total(&idle) <= 3, "{idle}");

    let containers = hollow.client()?.list_containers(&ContainerFilter::default()).await?;
    let victim = containers.iter().find(|container| *container.pod.name == *"pod-100-node");
    let victim = victim.context("pod-100 runs")?;
    ensure!(victim.state == ContainerState::Running);
    hollow.command("reset")?;
    hollow.command(&format!("kill {}", victim.id))?;
    wait::until("it is restarted", LONG, || {
        let started = calls(&hollow.command("")?, "StartContainer");
        Ok(if started == 1 { Ok(()) } else { Err(format!("{started} started")) })
    })?;
    std::thread::sleep(Duration::from_secs(2));
    let death = hollow.command("reset")?;
    eprintln!("idle: {idle}\ndeath and restart: {death}");
    // A relist may have come in between; its requests differ from those of status calls.
    let unfiltered =
        |method: &str| calls(&death, method) - death[method]["filtered"].as_u64().unwrap_or(0);
    ensure!(unfiltered("ListContainers") <= 1 && unfiltered("ListPodSandbox") <= 1, "{death}");
    ensure!(total(&death) <= 20, "{death}");
    ensure!(agent.stop()?.success());
    Ok(())
}
