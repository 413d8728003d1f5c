//! The contract of disk measurements.

use std::path::Path;

use anyhow::{Result, ensure};
use model::ports::disk::Disks;

/// Checks a disk: `there` exists, `nowhere` does not.
pub async fn disks_contract(disks: &dyn Disks, there: &Path, nowhere: &Path) -> Result<()> {
    let space = disks.space(there).await?;
    ensure!(space.capacity > 0 && space.available <= space.capacity, "{space:?}");
    let again = disks.space(there).await?;
    ensure!(again.capacity == space.capacity, "{space:?}, then {again:?}");
    let Err(error) = disks.space(nowhere).await else {
        anyhow::bail!("missing {} was measured", nowhere.display());
    };
    ensure!(error.is_not_found() && error.path == nowhere, "{error:?}");
    Ok(())
}
