//! A node with more dead containers than its runtime can send at once.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use model::observed::ContainerState;
use model::ports::runtime::Runtime;
use testbed::wait;

use crate::programs::{Hollow, LONG, Program};
use crate::starts::metrics;

const MANIFEST: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  \
                        - {name: main, image: \"ferrolet.test/workload:1\", args: [sleep, forever]}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn node_with_oversized_lists_is_cleaned_up_and_runs_its_pods() -> Result<()> {
    let place = tempfile::tempdir().context("make a directory")?;
    let root = place.path();
    fs::create_dir(root.join("manifests")).context("make a directory for manifests")?;
    fs::write(root.join("manifests/web.yaml"), MANIFEST).context("write a manifest")?;
    // The containers of one sandbox fit in a response, and so do all sandboxes, but not all containers.
    let options = ["--dead", "30", "--containers", "20", "--send-limit", "32768"];
    let hollow = Hollow::start(root, &options)?;
    let config = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         staticPodPath: {0}/manifests\ncontainerRuntimeEndpoint: unix://{1}\npodLogsDir: {0}/pods\n\
         enableServer: false\nfailCgroupV1: false\nfailSwapOn: false\nhealthzPort: 0\n\
         cgroupsPerQOS: false\nenforceNodeAllocatable: []\nevictionHard: {{}}\nmakeIPTablesUtilChains: false\n",
        root.display(),
        hollow.socket(),
    );
    fs::write(root.join("config.yaml"), config).context("write the configuration")?;
    let client = Runtime::new(Arc::new(hollow.client()?));
    let (sandboxes, containers) = model::lists::everything(&client).await?;
    ensure!((sandboxes.len(), containers.len()) == (30, 600), "{} sandboxes", sandboxes.len());
    let agent = Program::start_agent(root, |command| {
        command.args(["run", "--hostname-override", "node", "-v=0", "--config"]);
        command.arg(root.join("config.yaml")).arg("--root-dir").arg(root.join("root"));
        command.stdout(Stdio::null()).stderr(Stdio::null())
    })?;
    let mut left = usize::MAX;
    for _ in 0..LONG.as_secs() * 5 {
        let (_, containers) = model::lists::everything(&client).await?;
        left = containers.len();
        if let [web] = &containers[..]
            && web.state == ContainerState::Running
            && *web.pod.name == *"web-node"
        {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    ensure!(left == 1, "{left} containers are left");
    let expected = [
        r#"ferrolet_removals_total{kind="container",outcome="removed",rule="pod-is-gone"} 600"#,
        r#"ferrolet_removals_total{kind="sandbox",outcome="removed",rule="pod-is-gone"} 30"#,
        r#"kubelet_runtime_operations_total{operation_type="remove_container"} 600"#,
        r#"kubelet_runtime_operations_duration_seconds_count{operation_type="remove_container"} 600"#,
        r#"kubelet_runtime_operations_errors_total{operation_type="list_containers"} "#,
    ];
    for line in expected {
        wait::until(line, LONG, || {
            let text = metrics(&root.join("root/ferrolet/agent.sock"))?;
            let is_there = text.lines().any(|found| found.starts_with(line));
            Ok(if is_there { Ok(()) } else { Err(text) })
        })?;
    }
    ensure!(agent.stop()?.success());
    Ok(())
}
