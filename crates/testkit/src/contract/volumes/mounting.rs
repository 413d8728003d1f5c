//! Mounts.

use std::io::ErrorKind;

use anyhow::{Context as _, Result, ensure};
use model::ports::volumes::{FileSystem, MountPoint};

use super::{World, made, place, refused};

fn memory() -> FileSystem {
    FileSystem::Tmpfs { size: Some(1 << 20), no_swap: true }
}

async fn mounts(world: &dyn World) -> Result<Vec<MountPoint>> {
    Ok(world.volumes().mounts(&world.directory()).await?)
}

pub(super) async fn memory_is_mounted_once_and_covers_what_was_there(
    world: &dyn World,
) -> Result<()> {
    let (volumes, files, data) = (world.volumes(), world.files(), made(world, "pod/data").await?);
    let path = data.path();
    world.write(&path.join("before"), b"text");
    volumes.mount(&data, &memory()).await?;
    ensure!(files.list(&path).await?.is_empty());
    world.write(&path.join("inside"), b"text");
    volumes.mount(&data, &memory()).await?;
    ensure!(files.list(&path).await? == ["inside"]);
    let found = mounts(world).await?;
    ensure!(found.len() == 1, "{found:?}");
    ensure!((&found[0].path, &*found[0].fs_type) == (&path, "tmpfs"), "{found:?}");
    ensure!(found[0].options.split(',').any(|option| option == "size=1024k"), "{found:?}");
    volumes.make_directory(&data, 0o777).await?;
    volumes.unmount(&data).await?;
    volumes.unmount(&data).await?;
    ensure!(files.list(&path).await? == ["before"]);
    ensure!(mounts(world).await?.is_empty());
    ensure!(world.mode(&path) & 0o777 == 0o755, "the directory below got the mode of the mount");
    Ok(())
}

pub(super) async fn mounts_are_ended_with_those_below(world: &dyn World) -> Result<()> {
    let volumes = world.volumes();
    for below in ["pod/data", "pod/data/a b", "pod/data/a b/inner", "pod/other"] {
        volumes.mount(&made(world, below).await?, &memory()).await?;
    }
    let paths: Vec<_> = mounts(world).await?.into_iter().map(|mount| mount.path).collect();
    let expected = ["pod/data", "pod/data/a b", "pod/data/a b/inner", "pod/other"];
    ensure!(paths == expected.map(|below| world.directory().join(below)), "{paths:?}");
    volumes.unmount(&place(world, "pod/data")).await?;
    let left = mounts(world).await?;
    ensure!(left.len() == 1 && left[0].path == world.directory().join("pod/other"), "{left:?}");
    ensure!(world.files().list(&world.directory().join("pod/data")).await?.is_empty());
    Ok(())
}

pub(super) async fn mounts_of_a_missing_directory_are_none(world: &dyn World) -> Result<()> {
    ensure!(world.volumes().mounts(&world.directory().join("missing")).await?.is_empty());
    world.volumes().unmount(&place(world, "missing/data")).await?;
    Ok(())
}

pub(super) async fn huge_pages_of_another_size_are_refused(world: &dyn World) -> Result<()> {
    let (volumes, data) = (world.volumes(), made(world, "data").await?);
    let pages = |size: &str| FileSystem::HugePages { page_size: size.to_owned() };
    if let Err(error) = volumes.mount(&data, &pages("2M")).await {
        // Not every kernel has them.
        let is_missing = matches!(error.source.raw_os_error(), Some(19 | 22));
        ensure!(is_missing, "{:?}", error.source);
        return Err(super::super::Impossible("mount huge pages").into());
    }
    volumes.mount(&data, &pages("2M")).await?;
    let error = refused(volumes.mount(&data, &pages("1024M")).await, &data.path())?;
    ensure!(error.source.kind() == ErrorKind::AlreadyExists, "{error:?}");
    refused(volumes.mount(&data, &memory()).await, &data.path())?;
    let found = mounts(world).await?;
    ensure!(found.len() == 1 && found[0].fs_type == "hugetlbfs", "{found:?}");
    Ok(())
}

pub(super) async fn bind_mount_shows_its_source_and_is_made_once(world: &dyn World) -> Result<()> {
    let (volumes, root) = (world.volumes(), world.directory());
    for below in ["source", "other"] {
        made(world, below).await?;
        world.write(&root.join(below).join("file"), below.as_bytes());
    }
    let target = place(world, "pod/volumes/data");
    for _ in 0..2 {
        volumes.bind(&root.join("source"), &target, true).await?;
    }
    ensure!(world.files().read(&target.path().join("file"), 10).await? == b"source");
    world.write(&root.join("source/file"), b"changed");
    ensure!(world.files().read(&target.path().join("file"), 10).await? == b"changed");
    let found = mounts(world).await?;
    ensure!(found.len() == 1 && found[0].path == target.path(), "{found:?}");
    ensure!(found[0].options.split(',').next() == Some("ro"), "{found:?}");
    let error = refused(volumes.bind(&root.join("other"), &target, false).await, &target.path())?;
    ensure!(error.source.kind() == ErrorKind::AlreadyExists, "{error:?}");
    let missing = refused(volumes.bind(&root.join("no"), &target, false).await, &target.path())?;
    ensure!(missing.is_not_found(), "{missing:?}");
    volumes.unmount(&target).await?;
    ensure!(world.files().list(&target.path()).await?.is_empty());
    ensure!(world.files().read(&root.join("source/file"), 10).await? == b"changed");
    Ok(())
}

pub(super) async fn file_is_bound_to_a_file(world: &dyn World) -> Result<()> {
    let (volumes, source) = (world.volumes(), world.directory().join("source"));
    world.write(&source, b"text");
    let target = place(world, "pod/file");
    volumes.bind(&source, &target, false).await?;
    ensure!(world.files().read(&target.path(), 10).await? == b"text");
    volumes.unmount(&target).await?;
    ensure!(world.files().read(&target.path(), 10).await?.is_empty());
    ensure!(world.mode(&target.path()) & 0o777 == 0o640);
    Ok(())
}

pub(super) async fn shared_directory_keeps_its_mounts(world: &dyn World) -> Result<()> {
    let (volumes, data) = (world.volumes(), made(world, "pod/data").await?);
    volumes.mount(&data, &memory()).await?;
    world.write(&data.path().join("file"), b"text");
    let before = mounts(world).await?;
    for _ in 0..2 {
        volumes.share_mounts(&world.directory()).await?;
    }
    ensure!(world.files().read(&data.path().join("file"), 10).await? == b"text");
    let of_data = |mounts: Vec<MountPoint>| -> Vec<MountPoint> {
        mounts.into_iter().filter(|mount| mount.path == data.path()).collect()
    };
    ensure!(of_data(mounts(world).await?) == of_data(before));
    volumes.unmount(&data).await.context("the mount from before")?;
    ensure!(world.files().list(&data.path()).await?.is_empty());
    refused(
        volumes.share_mounts(&world.directory().join("missing")).await,
        &world.directory().join("missing"),
    )?;
    Ok(())
}
