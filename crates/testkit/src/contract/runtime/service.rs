//! The runtime itself.

use anyhow::{Result, ensure};

use super::bench::Bench;

pub(super) async fn version_returns_name_and_version(bench: &Bench<'_>) -> Result<()> {
    let version = bench.runtime.info.version().await?;
    ensure!(!version.name.is_empty(), "no name in {version:?}");
    ensure!(!version.version.is_empty(), "no version in {version:?}");
    ensure!(version.api_version == "v1", "not the v1 interface: {version:?}");
    Ok(())
}

pub(super) async fn runtime_and_network_are_ready(bench: &Bench<'_>) -> Result<()> {
    let status = bench.runtime.info.status().await?;
    let errors = (status.runtime_error(), status.network_error());
    ensure!(errors == (None, None), "{status:?}");
    Ok(())
}
