//! Versions of files, and watches for changes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use model::ports::files::{DirectoryChange, DirectoryWatch, FileKind};
use tokio::time::timeout;

use super::{Harness, Impossible, refused};

/// The longest time until a change is reported.
const SOON: Duration = Duration::from_secs(5);

pub(super) async fn reading_a_special_file_fails(harness: &dyn Harness) -> Result<()> {
    let (files, path) = (harness.files(), harness.directory().join("special"));
    ensure!(harness.special(&path), Impossible("create special files"));
    refused(timeout(SOON, files.read(&path, 10)).await?, &path)?;
    refused(timeout(SOON, files.read_version(&path, 10)).await?, &path)?;
    Ok(())
}

pub(super) async fn file_versions_differ_after_a_write(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let (path, new) = (directory.join("file"), directory.join("new"));
    harness.write(&path, b"text");
    let first = files.look(&path).await?;
    ensure!(first.kind == FileKind::File && first.version.size == 4, "{first:?}");
    ensure!(files.look(&path).await? == first, "new version without a change");
    harness.write(&path, b"more text");
    let second = files.look(&path).await?;
    ensure!(second.version != first.version, "the same version after a change");
    ensure!(second.version.same_file(&first.version), "new file after a write");
    // A rename with the same size, perhaps within one clock tick.
    harness.write(&new, b"text more");
    harness.rename(&new, &path);
    let third = files.look(&path).await?;
    ensure!(third.version != second.version, "same version for another file");
    ensure!(!third.version.same_file(&second.version), "the same file after a replacement");
    harness.put_link(&directory.join("link"), Path::new("file"));
    ensure!(files.look(&directory.join("link")).await? == third, "not the target of the link");
    let before = files.look(&directory).await?;
    ensure!(before.kind == FileKind::Directory);
    // Within one clock tick the version may be the same.
    for number in 0.. {
        ensure!(number < 1000, "the same version of a directory with other entries");
        harness.write(&directory.join(format!("entry-{number}")), b"");
        if files.look(&directory).await?.version != before.version {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let kind = refused(files.look(&new).await, &new)?;
    ensure!(kind == ErrorKind::NotFound, "{kind}");
    Ok(())
}

pub(super) async fn entries_are_inspected_in_order(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    ensure!(files.entries(&directory).await?.is_empty());
    harness.write(&directory.join("b"), b"text");
    harness.write(&directory.join(".a"), b"");
    files.create_directory(&directory, Path::new("a/below"), 0o755).await?;
    harness.put_link(&directory.join("c"), Path::new("b"));
    harness.put_link(&directory.join("d"), Path::new("nothing"));
    let mut found_entries = Vec::new();
    for entry in files.entries(&directory).await? {
        let path = directory.join(&entry.name);
        match entry.found {
            Ok(found) => {
                ensure!(found == files.look(&path).await?, "{found:?} is not its metadata");
                found_entries.push(format!("{} {:?}", entry.name.display(), found.kind));
            }
            Err(error) => {
                ensure!(error.is_not_found() && error.path == path, "{error:?}");
                found_entries.push(format!("{} missing", entry.name.display()));
            }
        }
    }
    let expected = [".a File", "a Directory", "b File", "c File", "d missing"];
    ensure!(found_entries == expected, "{found_entries:?}");
    let file = directory.join("b");
    let kind = refused(files.entries(&file).await, &file)?;
    ensure!(kind == ErrorKind::NotADirectory, "{kind}");
    Ok(())
}

pub(super) async fn file_is_read_with_its_version(harness: &dyn Harness) -> Result<()> {
    let (files, path) = (harness.files(), harness.directory().join("file"));
    for content in [&b"12345"[..], b"", b"123"] {
        harness.write(&path, content);
        let (version, read) = files.read_version(&path, 5).await?;
        ensure!(read == content, "{read:?} instead of {content:?}");
        ensure!(
            version == files.look(&path).await?.version,
            "{version:?} is not the current version"
        );
    }
    harness.write(&path, b"123456");
    refused(files.read_version(&path, 5).await, &path)?;
    let missing = path.with_file_name("missing");
    let kind = refused(files.read_version(&missing, 5).await, &missing)?;
    ensure!(kind == ErrorKind::NotFound, "{kind}");
    Ok(())
}

/// Waits until a change of all these names was reported.
async fn expect_changes(watch: &mut dyn DirectoryWatch, names: &[&str]) -> Result<()> {
    let mut missing: BTreeSet<OsString> = names.iter().map(OsString::from).collect();
    while !missing.is_empty() {
        match timeout(SOON, watch.next_change()).await.with_context(|| format!("{missing:?}"))? {
            Some(DirectoryChange::Names(changed)) => missing.retain(|name| !changed.contains(name)),
            Some(DirectoryChange::Anything) => return Ok(()),
            None => bail!("the watch ended before {missing:?}"),
        }
    }
    Ok(())
}

pub(super) async fn watch_reports_changes_in_a_directory(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    harness.write(&directory.join("old"), b"text");
    let mut watch = files.watch(&directory).await?;
    harness.write(&directory.join("new"), b"text");
    expect_changes(&mut *watch, &["new"]).await?;
    harness.write(&directory.join("new"), b"more text");
    expect_changes(&mut *watch, &["new"]).await?;
    harness.put_link(&directory.join("link"), Path::new("old"));
    expect_changes(&mut *watch, &["link"]).await?;
    harness.rename(&directory.join("old"), &directory.join("older"));
    expect_changes(&mut *watch, &["old", "older"]).await?;
    harness.remove(&directory.join("older"));
    expect_changes(&mut *watch, &["older"]).await?;
    files.create_directory(&directory, Path::new("below"), 0o755).await?;
    expect_changes(&mut *watch, &["below"]).await
}

pub(super) async fn every_watch_sees_the_changes(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.create_directory(&directory, Path::new("below"), 0o755).await?;
    let below = directory.join("below");
    let mut watches = [
        files.watch(&directory).await?,
        files.watch(&below).await?,
        files.watch(&below).await?,
        files.watch(&below).await?,
    ];
    harness.write(&directory.join("above"), b"text");
    harness.write(&below.join("file"), b"text");
    expect_changes(&mut *watches[0], &["above"]).await?;
    for watch in &mut watches[1..] {
        expect_changes(&mut **watch, &["file"]).await?;
    }
    // Dropping one watch does not end the others.
    let [_, gone, ref mut stays, _] = watches;
    drop(gone);
    harness.write(&below.join("another"), b"text");
    expect_changes(&mut **stays, &["another"]).await
}

pub(super) async fn watch_ends_when_its_directory_is_removed(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    for name in ["removed", "moved"] {
        files.create_directory(&directory, Path::new(name), 0o755).await?;
        let path = directory.join(name);
        let mut watch = files.watch(&path).await?;
        if name == "removed" {
            harness.remove(&path);
        } else {
            harness.rename(&path, &directory.join("elsewhere"));
        }
        let end = async { while watch.next_change().await.is_some() {} };
        timeout(SOON, end).await.with_context(|| format!("watch of {name} did not end"))?;
        // A new directory at the path can be watched as any other.
        files.create_directory(&directory, Path::new(name), 0o755).await?;
        let mut watch = files.watch(&path).await?;
        harness.write(&path.join("file"), b"text");
        expect_changes(&mut *watch, &["file"]).await?;
    }
    Ok(())
}

pub(super) async fn only_a_directory_is_watched(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let (file, missing) = (directory.join("file"), directory.join("missing"));
    harness.write(&file, b"text");
    let kind = refused(files.watch(&file).await, &file)?;
    ensure!(kind == ErrorKind::NotADirectory, "{kind}");
    let kind = refused(files.watch(&missing).await, &missing)?;
    ensure!(kind == ErrorKind::NotFound, "{kind}");
    Ok(())
}
