//! Files of the agent that survive a restart.

use std::path::Path;

use anyhow::{Result, ensure};
use model::ports::files::{draft_of, is_draft};

use super::{Harness, refused};

pub(super) async fn written_file_is_private_to_the_agent(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.write_durably(&directory.join("state/deep/file"), b"text").await?;
    for (path, expected) in [("state", 0o700), ("state/deep", 0o700), ("state/deep/file", 0o600)] {
        let mode = harness.mode(&directory.join(path)) & 0o777;
        ensure!(mode == expected, "{path}: {mode:o}");
    }
    Ok(())
}

pub(super) async fn written_file_replaces_the_old_one(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let path = directory.join("file");
    for content in [&b"first and long"[..], b"second", b""] {
        let before = files.look(&path).await.ok();
        files.write_durably(&path, content).await?;
        ensure!(files.read(&path, 100).await? == content);
        if let Some(before) = before {
            // A reader of the old file still reads all of it.
            let after = files.look(&path).await?;
            ensure!(!after.version.same_file(&before.version), "overwritten in place");
        }
    }
    ensure!(files.list(&directory).await? == ["file"], "a draft was left behind");
    Ok(())
}

pub(super) async fn leftover_draft_does_not_prevent_a_write(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let draft = draft_of("file");
    ensure!(is_draft(&draft) && !is_draft("file"), "{draft}");
    harness.write(&directory.join(&draft), b"half of somethi");
    files.write_durably(&directory.join("file"), b"new").await?;
    ensure!(files.read(&directory.join("file"), 100).await? == b"new");
    harness.write(&directory.join(&draft), b"half of somethi");
    files.remove_written(&directory.join(&draft)).await?;
    ensure!(files.list(&directory).await? == ["file"]);
    Ok(())
}

pub(super) async fn only_files_are_replaced_or_removed(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.create_directory(&directory, Path::new("place/below"), 0o755).await?;
    let path = directory.join("place");
    refused(files.write_durably(&path, b"text").await, &path)?;
    refused(files.remove_written(&path).await, &path)?;
    ensure!(files.list(&path).await? == ["below"]);
    harness.write(&directory.join("file"), b"text");
    let path = directory.join("file/below");
    refused(files.write_durably(&path, b"text").await, &path)?;
    Ok(())
}

pub(super) async fn written_file_is_removed(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.write_durably(&directory.join("one"), b"1").await?;
    files.write_durably(&directory.join("two"), b"2").await?;
    for path in ["one", "one", "missing", "missing/too"] {
        files.remove_written(&directory.join(path)).await?;
    }
    ensure!(files.list(&directory).await? == ["two"]);
    Ok(())
}

pub(super) async fn overwritten_file_stays_the_same_file(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let path = directory.join("hosts");
    files.overwrite(&path, b"first and long", 0o644).await?;
    let before = files.look(&path).await?;
    files.overwrite(&path, b"second", 0o640).await?;
    ensure!(files.read(&path, 100).await? == b"second");
    let after = files.look(&path).await?;
    ensure!(after.version.same_file(&before.version), "replaced by another file");
    let mode = harness.mode(&path) & 0o777;
    ensure!(mode == 0o640, "{mode:o}");
    Ok(())
}

pub(super) async fn only_files_are_overwritten(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    harness.write(&directory.join("target"), b"text");
    harness.put_link(&directory.join("link"), &directory.join("target"));
    files.create_directory(&directory, Path::new("place"), 0o755).await?;
    for name in ["link", "place", "missing/file", "target/below"] {
        let path = directory.join(name);
        refused(files.overwrite(&path, b"new", 0o644).await, &path)?;
    }
    ensure!(files.read(&directory.join("target"), 100).await? == b"text");
    Ok(())
}
