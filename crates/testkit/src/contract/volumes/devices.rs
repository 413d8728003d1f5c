//! Devices of pods.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use model::volume::DevicePlaces;

use super::{Harness, made, place, refused};

async fn mounted(harness: &dyn Harness) -> Result<Vec<PathBuf>> {
    let mounts = harness.volumes().mounts(&harness.directory()).await?;
    Ok(mounts.into_iter().map(|mount| mount.path).collect())
}

/// Any file that is not a directory can act as a device.
pub(super) async fn device_is_mapped_for_a_pod_and_taken_back(harness: &dyn Harness) -> Result<()> {
    let (volumes, files, root) = (harness.volumes(), harness.files(), harness.directory());
    made(harness, "dev").await?;
    let (device, other) = (root.join("dev/disk"), root.join("dev/other"));
    harness.write(&device, b"disk");
    harness.write(&other, b"other");
    let places = |uid: &str| DevicePlaces {
        map: place(harness, &format!("plugins/pv/{uid}")),
        link: place(harness, &format!("pods/{uid}/volumeDevices/plugin/pv")),
    };
    let (one, two) = (places("u1"), places("u2"));
    volumes.unmap_device(&one).await?;
    for _ in 0..2 {
        volumes.map_device(&device, &one).await?;
    }
    volumes.map_device(&device, &two).await?;
    for places in [&one, &two] {
        ensure!(files.read(&places.map.path(), 10).await? == b"disk");
        ensure!(files.read(&places.link.path(), 10).await? == b"disk");
    }
    ensure!(mounted(harness).await? == [one.map.path(), two.map.path()]);

    volumes.unmap_device(&one).await?;
    volumes.unmap_device(&one).await?;
    ensure!(mounted(harness).await? == [two.map.path()]);
    ensure!(files.list(&root.join("plugins/pv")).await? == ["u2"]);
    ensure!(files.list(&root.join("pods/u1/volumeDevices/plugin")).await?.is_empty());
    // A link that a container or another agent left is replaced; a file is not.
    harness.put_link(&one.link.path(), Path::new("/etc/shadow"));
    volumes.map_device(&device, &one).await?;
    ensure!(files.read(&one.link.path(), 10).await? == b"disk");
    refused(volumes.map_device(&other, &one).await, &one.link.path())?;
    volumes.unmap_device(&one).await?;
    harness.write(&one.link.path(), b"mine");
    refused(volumes.unmap_device(&one).await, &one.link.path())?;
    ensure!(files.read(&one.link.path(), 10).await? == b"mine");
    volumes.unmap_device(&two).await?;
    ensure!(mounted(harness).await?.is_empty());
    ensure!(files.list(&root.join("plugins")).await?.is_empty(), "the map directory stays");
    ensure!(files.read(&device, 10).await? == b"disk");
    Ok(())
}
