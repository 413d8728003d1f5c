//! Machines on which the agent does not start.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::node::program;

/// Shows the agent a machine with swap, and ends it if it minds nothing.
const WITH_SWAP: &str = r#"mount --bind "$1" /proc/swaps && shift && exec timeout 30 "$@""#;

// behaviour: CGR-29
#[test]
fn a_machine_with_swap_is_refused_in_upstreams_words() -> Result<()> {
    let place = tempfile::tempdir().context("make a place")?;
    let root = place.path();
    let swaps = "Filename\tType\tSize\tUsed\tPriority\n/swap.img\tfile\t4096\t0\t-2\n";
    fs::write(root.join("swaps"), swaps).context("write the kernel's list of swap")?;
    let config = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         staticPodPath: {0}\ncontainerRuntimeEndpoint: unix://{0}/nobody.sock\n\
         enableServer: false\nfailCgroupV1: false\nhealthzPort: 0\n",
        root.display(),
    );
    fs::write(root.join("config.yaml"), config).context("write the configuration")?;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", WITH_SWAP, "sh"]).arg(root.join("swaps"));
    command.arg(program("ferrolet")?).args(["run", "--config"]).arg(root.join("config.yaml"));
    let told =
        command.arg("--root-dir").arg(root.join("root")).output().context("run the agent")?;
    let said = String::from_utf8_lossy(&told.stderr);
    ensure!(told.status.code() == Some(1), "{:?}: {said}", told.status);
    let expected = "running with swap on is not supported, please disable swap or set \
                    --fail-swap-on flag to false";
    ensure!(said.contains(expected), "{said}");
    Ok(())
}
