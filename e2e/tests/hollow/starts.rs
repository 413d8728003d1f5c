//! Machines on which the agent does not start, and runtimes that a later agent will not support.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::node::program;
use testbed::wait;

use crate::programs::{Hollow, LONG, Program};

/// Shows the agent a machine with swap, and stops it if it starts.
const WITH_SWAP: &str = r#"mount --bind "$1" /proc/swaps && shift && exec timeout 30 "$@""#;

// behaviour: CGR-29
#[test]
fn swap_fails_the_start_with_upstreams_message() -> Result<()> {
    let place = tempfile::tempdir().context("make a directory")?;
    let root = place.path();
    let swaps = "Filename\tType\tSize\tUsed\tPriority\n/swap.img\tfile\t4096\t0\t-2\n";
    fs::write(root.join("swaps"), swaps).context("write the kernel's list of swap")?;
    let config = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         staticPodPath: {0}\ncontainerRuntimeEndpoint: unix://{0}/missing.sock\n\
         enableServer: false\nfailCgroupV1: false\nhealthzPort: 0\n",
        root.display(),
    );
    fs::write(root.join("config.yaml"), config).context("write the configuration")?;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", WITH_SWAP, "sh"]).arg(root.join("swaps"));
    command.arg(program("ferrolet")?).args(["run", "--config"]).arg(root.join("config.yaml"));
    let output =
        command.arg("--root-dir").arg(root.join("root")).output().context("run the agent")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{:?}: {said}", output.status);
    let expected = "running with swap on is not supported, please disable swap or set \
                    --fail-swap-on flag to false";
    ensure!(said.contains(expected), "{said}");
    Ok(())
}

/// The agent's response with its metrics.
pub(crate) fn metrics(socket: &Path) -> Result<String> {
    let mut stream = UnixStream::connect(socket).context("send a request to the agent")?;
    stream.set_read_timeout(Some(LONG)).context("send a request to the agent")?;
    let question = "GET /metrics HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n";
    stream.write_all(question.as_bytes()).context("send a request to the agent")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the response of the agent")?;
    Ok(answer)
}

/// The metrics of an agent whose runtime was started with these options.
fn metrics_with(options: &[&str]) -> Result<String> {
    let place = tempfile::tempdir().context("make a directory")?;
    let root = place.path();
    fs::create_dir(root.join("manifests")).context("make a directory for manifests")?;
    let hollow = Hollow::start(root, options)?;
    let config = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         staticPodPath: {0}/manifests\ncontainerRuntimeEndpoint: unix://{1}\npodLogsDir: {0}/pods\n\
         enableServer: false\nfailCgroupV1: false\nfailSwapOn: false\nhealthzPort: 0\n\
         cgroupsPerQOS: false\nenforceNodeAllocatable: []\nevictionHard: {{}}\nmakeIPTablesUtilChains: false\n",
        root.display(),
        hollow.socket(),
    );
    fs::write(root.join("config.yaml"), config).context("write the configuration")?;
    let agent = Program::start_agent(root, |command| {
        command.args(["run", "--hostname-override", "node", "-v=0", "--config"]);
        command.arg(root.join("config.yaml")).arg("--root-dir").arg(root.join("root"));
        command.stdout(Stdio::null()).stderr(Stdio::null())
    })?;
    let metrics = wait::until("the agent serves its metrics", LONG, || {
        Ok(match metrics(&root.join("root/ferrolet/agent.sock")) {
            Ok(answer) if answer.contains("\nkubernetes_feature_enabled{") => Ok(answer),
            Ok(answer) => Err(answer),
            Err(error) => Err(format!("{error:#}")),
        })
    })?;
    agent.stop()?;
    Ok(metrics)
}

// behaviour: CFG-8
#[test]
fn missing_runtime_config_call_is_reported_with_the_version_that_needs_it() -> Result<()> {
    let line = "kubelet_cri_losing_support{version=\"1.37.0\"} 1";
    let metrics = metrics_with(&["--fail", "RuntimeConfig=Unimplemented"])?;
    ensure!(metrics.lines().any(|found| found == line), "{metrics}");
    let metrics = metrics_with(&[])?;
    ensure!(!metrics.contains("kubelet_cri_losing_support"), "{metrics}");
    Ok(())
}
