//! Files that containers write, and the removal of logs.

use std::path::Path;

use anyhow::{Result, ensure};
use model::ports::files::Removed;
use model::verdict::Subject;

use super::{Harness, refused};
use crate::wanted::removal;

pub(super) async fn file_is_created_empty_with_its_mode_and_only_once(
    harness: &dyn Harness,
) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    files.create_directory(&root, Path::new("pod/main"), 0o750).await?;
    let below = Path::new("pod/main/0a1b2c3d");
    files.create_file(&root, below, 0o666).await?;
    ensure!(harness.mode(&root.join(below)) & 0o777 == 0o666);
    ensure!(files.read(&root.join(below), 10).await?.is_empty());
    harness.write(&root.join(below), b"words");
    refused(files.create_file(&root, below, 0o666).await, &root.join(below))?;
    ensure!(files.read(&root.join(below), 10).await? == b"words");
    let elsewhere = Path::new("nowhere/file");
    refused(files.create_file(&root, elsewhere, 0o666).await, &root.join(elsewhere))?;
    Ok(())
}

pub(super) async fn file_is_not_created_outside_its_root(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.create_directory(&directory, Path::new("outside"), 0o755).await?;
    files.create_directory(&directory, Path::new("root"), 0o755).await?;
    let root = directory.join("root");
    harness.put_link(&root.join("link"), &directory.join("outside"));
    for below in ["../outside/file", "link/file"] {
        let below = Path::new(below);
        refused(files.create_file(&root, below, 0o644).await, &root.join(below))?;
    }
    ensure!(files.list(&directory.join("outside")).await?.is_empty());
    Ok(())
}

pub(super) async fn end_of_a_file_is_read(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    let below = Path::new("file");
    harness.write(&root.join(below), b"0123456789");
    ensure!(files.read_end(&root, below, 4).await? == b"6789");
    ensure!(files.read_end(&root, below, 10).await? == b"0123456789");
    ensure!(files.read_end(&root, below, 99).await? == b"0123456789");
    let missing = Path::new("missing");
    ensure!(files.read_end(&root, missing, 4).await.is_err_and(|error| error.is_not_found()));
    Ok(())
}

pub(super) async fn no_link_is_followed_to_the_end_of_a_file(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.create_directory(&directory, Path::new("root"), 0o755).await?;
    let root = directory.join("root");
    harness.write(&directory.join("secret"), b"secret");
    harness.put_link(&root.join("link"), &directory.join("secret"));
    harness.put_link(&root.join("up"), &directory);
    for below in ["link", "up/secret", "../secret"] {
        let below = Path::new(below);
        refused(files.read_end(&root, below, 10).await, &root.join(below))?;
    }
    files.create_directory(&root, Path::new("directory"), 0o755).await?;
    refused(files.read_end(&root, Path::new("directory"), 10).await, &root.join("directory"))?;
    Ok(())
}

pub(super) async fn log_is_removed_with_its_rotated_files_only(
    harness: &dyn Harness,
) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    files.create_directory(&root, Path::new("pod/main"), 0o755).await?;
    let directory = root.join("pod/main");
    for name in ["1.log", "1.log.20260101-000000", "1.log.20260101-000001.gz", "11.log", "2.log"] {
        harness.write(&directory.join(name), b"text");
    }
    let log = removal(Subject::ContainerLog(directory.join("1.log")));
    ensure!(files.remove(&root, &log).await? == Removed::Now);
    ensure!(files.list(&directory).await? == ["11.log", "2.log"]);
    ensure!(files.remove(&root, &log).await? == Removed::Before);
    let elsewhere = removal(Subject::ContainerLog(root.join("pod/other/1.log")));
    files.remove(&root, &elsewhere).await?;
    for path in [directory.clone(), root.join("1.log"), root.join("pod/../pod/main/2.log")] {
        let verdict = removal(Subject::ContainerLog(path.clone()));
        refused(files.remove(&root, &verdict).await, &path)?;
    }
    Ok(())
}

pub(super) async fn one_rotated_file_is_removed_alone(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    files.create_directory(&root, Path::new("pod/main"), 0o755).await?;
    let directory = root.join("pod/main");
    let rotated =
        ["1.log.20260101-000000", "1.log.20260101-000001.gz", "1.log.20260101-000002.tmp"];
    for name in rotated.into_iter().chain(["1.log", "1.log.notes"]) {
        harness.write(&directory.join(name), b"text");
    }
    for name in rotated {
        let verdict = removal(Subject::RotatedLog(directory.join(name)));
        ensure!(files.remove(&root, &verdict).await? == Removed::Now, "{name}");
        ensure!(files.remove(&root, &verdict).await? == Removed::Before, "{name}");
    }
    ensure!(files.list(&directory).await? == ["1.log", "1.log.notes"]);
    let elsewhere = root.join("pod/main/../main/1.log.20260101-000000");
    let shallow = root.join("1.log.20260101-000000");
    for path in [directory.join("1.log"), directory.join("1.log.notes"), elsewhere, shallow] {
        let verdict = removal(Subject::RotatedLog(path.clone()));
        refused(files.remove(&root, &verdict).await, &path)?;
    }
    Ok(())
}

pub(super) async fn pod_directory_is_removed_recursively(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    files.create_directory(&root, Path::new("uid/containers/main"), 0o750).await?;
    files.create_directory(&root, Path::new("other"), 0o750).await?;
    harness.write(&root.join("uid/containers/main/0a1b2c3d"), b"words");
    let verdict = removal(Subject::PodDirectory(root.join("uid")));
    files.remove(&root, &verdict).await?;
    files.remove(&root, &verdict).await?;
    ensure!(files.list(&root).await? == ["other"]);
    let path = root.join("other/below");
    refused(files.remove(&root, &removal(Subject::PodDirectory(path.clone()))).await, &path)?;
    Ok(())
}
