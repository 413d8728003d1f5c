//! Devices of pods.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use model::volume::DevicePlaces;

use super::{World, made, place, refused};

async fn mounted(world: &dyn World) -> Result<Vec<PathBuf>> {
    let mounts = world.volumes().mounts(&world.directory()).await?;
    Ok(mounts.into_iter().map(|mount| mount.path).collect())
}

/// Any file that is not a directory can stand for a device.
pub(super) async fn device_is_mapped_for_a_pod_and_taken_back(world: &dyn World) -> Result<()> {
    let (volumes, files, root) = (world.volumes(), world.files(), world.directory());
    made(world, "dev").await?;
    let (device, other) = (root.join("dev/disk"), root.join("dev/other"));
    world.write(&device, b"disk");
    world.write(&other, b"other");
    let places = |uid: &str| DevicePlaces {
        map: place(world, &format!("plugins/pv/{uid}")),
        link: place(world, &format!("pods/{uid}/volumeDevices/plugin/pv")),
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
    ensure!(mounted(world).await? == [one.map.path(), two.map.path()]);

    volumes.unmap_device(&one).await?;
    volumes.unmap_device(&one).await?;
    ensure!(mounted(world).await? == [two.map.path()]);
    ensure!(files.list(&root.join("plugins/pv")).await? == ["u2"]);
    ensure!(files.list(&root.join("pods/u1/volumeDevices/plugin")).await?.is_empty());
    // A link that a container or another agent left is replaced; a file is not.
    world.put_link(&one.link.path(), Path::new("/etc/shadow"));
    volumes.map_device(&device, &one).await?;
    ensure!(files.read(&one.link.path(), 10).await? == b"disk");
    refused(volumes.map_device(&other, &one).await, &one.link.path())?;
    volumes.unmap_device(&one).await?;
    world.write(&one.link.path(), b"mine");
    refused(volumes.unmap_device(&one).await, &one.link.path())?;
    ensure!(files.read(&one.link.path(), 10).await? == b"mine");
    volumes.unmap_device(&two).await?;
    ensure!(mounted(world).await?.is_empty());
    ensure!(files.list(&root.join("plugins")).await?.is_empty(), "the directory of the maps stays");
    ensure!(files.read(&device, 10).await? == b"disk");
    Ok(())
}
