//! Mounts.

use std::io::ErrorKind;

use anyhow::{Context as _, Result, ensure};
use model::ports::volumes::{FileSystem, MountPoint};

use super::{Harness, made, place, refused};

fn memory() -> FileSystem {
    FileSystem::Tmpfs { size: Some(1 << 20), no_swap: true }
}

async fn mounts(harness: &dyn Harness) -> Result<Vec<MountPoint>> {
    Ok(harness.volumes().mounts(&harness.directory()).await?)
}

pub(super) async fn memory_is_mounted_once_and_covers_what_was_there(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, files, data) =
        (harness.volumes(), harness.files(), made(harness, "pod/data").await?);
    let path = data.path();
    harness.write(&path.join("before"), b"text");
    volumes.mount(&data, &memory()).await?;
    ensure!(files.list(&path).await?.is_empty());
    harness.write(&path.join("inside"), b"text");
    volumes.mount(&data, &memory()).await?;
    ensure!(files.list(&path).await? == ["inside"]);
    let found = mounts(harness).await?;
    ensure!(found.len() == 1, "{found:?}");
    ensure!((&found[0].path, &*found[0].fs_type) == (&path, "tmpfs"), "{found:?}");
    ensure!(found[0].options.split(',').any(|option| option == "size=1024k"), "{found:?}");
    volumes.make_directory(&data, 0o777).await?;
    volumes.unmount(&data).await?;
    volumes.unmount(&data).await?;
    ensure!(files.list(&path).await? == ["before"]);
    ensure!(mounts(harness).await?.is_empty());
    ensure!(harness.mode(&path) & 0o777 == 0o755, "the directory below got the mode of the mount");
    Ok(())
}

pub(super) async fn mounts_are_ended_with_those_below(harness: &dyn Harness) -> Result<()> {
    let volumes = harness.volumes();
    for below in ["pod/data", "pod/data/a b", "pod/data/a b/inner", "pod/other"] {
        volumes.mount(&made(harness, below).await?, &memory()).await?;
    }
    let paths: Vec<_> = mounts(harness).await?.into_iter().map(|mount| mount.path).collect();
    let expected = ["pod/data", "pod/data/a b", "pod/data/a b/inner", "pod/other"];
    ensure!(paths == expected.map(|below| harness.directory().join(below)), "{paths:?}");
    volumes.unmount(&place(harness, "pod/data")).await?;
    let left = mounts(harness).await?;
    ensure!(left.len() == 1 && left[0].path == harness.directory().join("pod/other"), "{left:?}");
    ensure!(harness.files().list(&harness.directory().join("pod/data")).await?.is_empty());
    Ok(())
}

pub(super) async fn mounts_of_a_missing_directory_are_none(harness: &dyn Harness) -> Result<()> {
    ensure!(harness.volumes().mounts(&harness.directory().join("missing")).await?.is_empty());
    harness.volumes().unmount(&place(harness, "missing/data")).await?;
    Ok(())
}

pub(super) async fn huge_pages_of_another_size_are_refused(harness: &dyn Harness) -> Result<()> {
    let (volumes, data) = (harness.volumes(), made(harness, "data").await?);
    let pages = |size: &str| FileSystem::HugePages { page_size: size.to_owned() };
    if let Err(error) = volumes.mount(&data, &pages("2M")).await {
        // Not every kernel has huge pages.
        let is_missing = matches!(error.source.raw_os_error(), Some(19 | 22));
        ensure!(is_missing, "{:?}", error.source);
        return Err(super::super::Impossible("mount huge pages").into());
    }
    volumes.mount(&data, &pages("2M")).await?;
    let error = refused(volumes.mount(&data, &pages("1024M")).await, &data.path())?;
    ensure!(error.source.kind() == ErrorKind::AlreadyExists, "{error:?}");
    refused(volumes.mount(&data, &memory()).await, &data.path())?;
    let found = mounts(harness).await?;
    ensure!(found.len() == 1 && found[0].fs_type == "hugetlbfs", "{found:?}");
    Ok(())
}

pub(super) async fn bind_mount_shows_its_source_and_is_made_once(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, root) = (harness.volumes(), harness.directory());
    for below in ["source", "other"] {
        made(harness, below).await?;
        harness.write(&root.join(below).join("file"), below.as_bytes());
    }
    let target = place(harness, "pod/volumes/data");
    for _ in 0..2 {
        volumes.bind(&root.join("source"), &target, true).await?;
    }
    ensure!(harness.files().read(&target.path().join("file"), 10).await? == b"source");
    harness.write(&root.join("source/file"), b"changed");
    ensure!(harness.files().read(&target.path().join("file"), 10).await? == b"changed");
    let found = mounts(harness).await?;
    ensure!(found.len() == 1 && found[0].path == target.path(), "{found:?}");
    ensure!(found[0].options.split(',').next() == Some("ro"), "{found:?}");
    let error = refused(volumes.bind(&root.join("other"), &target, false).await, &target.path())?;
    ensure!(error.source.kind() == ErrorKind::AlreadyExists, "{error:?}");
    let missing = refused(volumes.bind(&root.join("no"), &target, false).await, &target.path())?;
    ensure!(missing.is_not_found(), "{missing:?}");
    volumes.unmount(&target).await?;
    ensure!(harness.files().list(&target.path()).await?.is_empty());
    ensure!(harness.files().read(&root.join("source/file"), 10).await? == b"changed");
    Ok(())
}

pub(super) async fn file_is_bound_to_a_file(harness: &dyn Harness) -> Result<()> {
    let (volumes, source) = (harness.volumes(), harness.directory().join("source"));
    harness.write(&source, b"text");
    let target = place(harness, "pod/file");
    volumes.bind(&source, &target, false).await?;
    ensure!(harness.files().read(&target.path(), 10).await? == b"text");
    volumes.unmount(&target).await?;
    ensure!(harness.files().read(&target.path(), 10).await?.is_empty());
    ensure!(harness.mode(&target.path()) & 0o777 == 0o640);
    Ok(())
}

pub(super) async fn shared_directory_keeps_its_mounts(harness: &dyn Harness) -> Result<()> {
    let (volumes, data) = (harness.volumes(), made(harness, "pod/data").await?);
    volumes.mount(&data, &memory()).await?;
    harness.write(&data.path().join("file"), b"text");
    let before = mounts(harness).await?;
    for _ in 0..2 {
        volumes.share_mounts(&harness.directory()).await?;
    }
    ensure!(harness.files().read(&data.path().join("file"), 10).await? == b"text");
    let of_data = |mounts: Vec<MountPoint>| -> Vec<MountPoint> {
        mounts.into_iter().filter(|mount| mount.path == data.path()).collect()
    };
    ensure!(of_data(mounts(harness).await?) == of_data(before));
    volumes.unmount(&data).await.context("the mount from before")?;
    ensure!(harness.files().list(&data.path()).await?.is_empty());
    refused(
        volumes.share_mounts(&harness.directory().join("missing")).await,
        &harness.directory().join("missing"),
    )?;
    Ok(())
}
