//! Removal of volumes and pod directories.

use std::io::ErrorKind;

use anyhow::{Result, ensure};
use model::ports::files::Removed;
use model::ports::volumes::FileSystem;
use model::verdict::Subject;

use super::{Harness, made, refused};
use crate::wanted::removal;

const VOLUME: &str = "uid/volumes/kubernetes.io~empty-dir/data";

pub(super) async fn volume_is_removed_with_its_content(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    let volume = made(harness, VOLUME).await?.path();
    made(harness, "outside").await?;
    harness.write(&volume.join("file"), b"text");
    harness.write(&root.join("outside/file"), b"text");
    harness.put_link(&volume.join("link"), &root.join("outside"));
    let verdict = removal(Subject::Volume(volume.clone()));
    ensure!(files.remove(&root, &verdict).await? == Removed::Now);
    ensure!(files.remove(&root, &verdict).await? == Removed::Before);
    ensure!(files.list(&root.join("outside")).await? == ["file"]);
    harness.put_link(&volume, &root.join("outside"));
    let plugin = root.join("uid/volumes/kubernetes.io~empty-dir");
    for path in [volume, plugin, root.join("outside"), root.join("uid/volumes/../../outside")] {
        let verdict = removal(Subject::Volume(path.clone()));
        refused(files.remove(&root, &verdict).await, &path)?;
    }
    ensure!(files.list(&root.join("outside")).await? == ["file"]);
    Ok(())
}

pub(super) async fn mounted_volume_is_not_removed(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    let volume = made(harness, VOLUME).await?;
    let inner = made(harness, &format!("{VOLUME}/inner")).await?;
    for place in [volume.clone(), inner] {
        let memory = FileSystem::Tmpfs { size: Some(1 << 20), no_swap: false };
        harness.volumes().mount(&place, &memory).await?;
        harness.write(&place.path().join("file"), b"text");
        let verdict = removal(Subject::Volume(volume.path()));
        let error = refused(files.remove(&root, &verdict).await, &volume.path())?;
        ensure!(error.source.kind() == ErrorKind::ResourceBusy, "{error:?}");
        ensure!(files.read(&place.path().join("file"), 10).await? == b"text");
        harness.volumes().unmount(&place).await?;
    }
    Ok(())
}

pub(super) async fn pod_directory_with_empty_volumes_is_removed(
    harness: &dyn Harness,
) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    for below in [
        VOLUME,
        "uid/containers/main",
        "uid/volume-subpaths/data/main/0",
        "uid/volumeDevices/kubernetes.io~local-volume",
        "outside",
    ] {
        made(harness, below).await?;
    }
    for below in ["uid/etc-hosts", "uid/userns", "uid/containers/main/0a1b2c3d", "outside/file"] {
        harness.write(&root.join(below), b"text");
    }
    for below in ["volume-subpaths/data/main/1", "plugins/kubernetes.io~empty-dir/data/ready"] {
        harness.write(&root.join("uid").join(below), b"");
    }
    let device = root.join("uid/volumeDevices/kubernetes.io~local-volume/pv");
    harness.put_link(&device, &root.join("outside"));
    files.remove(&root, &removal(Subject::PodDirectory(root.join("uid")))).await?;
    ensure!(files.list(&root).await? == ["outside"]);
    ensure!(files.list(&root.join("outside")).await? == ["file"]);
    Ok(())
}

pub(super) async fn pod_directory_with_a_foreign_file_is_kept_whole(
    harness: &dyn Harness,
) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    let (foreign, pod) = (format!("{VOLUME}/file"), root.join("uid"));
    for below in [&*foreign, "uid/notes", "uid/volumes/file", "uid/volume-subpaths/data/main/0"] {
        made(harness, "uid/containers/main").await?;
        harness.write(&root.join(below), b"text");
        let verdict = removal(Subject::PodDirectory(pod.clone()));
        let error = refused(files.remove(&root, &verdict).await, &pod)?;
        ensure!(error.source.kind() == ErrorKind::DirectoryNotEmpty, "{below}: {error:?}");
        let below_pod = below.trim_start_matches("uid/").trim_end_matches("/file");
        ensure!(error.source.to_string().contains(below_pod), "{below}: {}", error.source);
        ensure!(files.read(&root.join(below), 10).await? == b"text");
        ensure!(files.list(&pod.join("containers")).await? == ["main"], "{below}: partly removed");
        harness.remove(&root.join(below));
        files.remove(&root, &verdict).await?;
    }
    Ok(())
}
