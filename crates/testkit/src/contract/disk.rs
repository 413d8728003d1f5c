//! The contract of disk measurements.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use model::ports::disk::{Disks, WalkBudget};
use model::volume::Place;

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
    let volume = disks.volume_space(there).await?;
    ensure!(volume.capacity == space.capacity, "{space:?}, as a volume {volume:?}");
    let (root, name) = (nowhere.parent(), nowhere.file_name());
    let below = PathBuf::from(name.context("a path has a name")?);
    let place = Place { root: root.context("a path has a parent")?.to_owned(), below };
    let budget = WalkBudget { entries: 100, time: Duration::from_secs(10) };
    let missing = [
        disks.volume_space(nowhere).await.err(),
        disks.listed_usage(nowhere).await.err(),
        disks.file_usage(nowhere).await.err(),
        disks.walked_usage(&place, budget).await.err(),
    ];
    for error in missing {
        let error = error.context("missing files were measured")?;
        ensure!(error.is_not_found(), "{error:?}");
    }
    Ok(())
}
