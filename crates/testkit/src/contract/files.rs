//! The contract of the port to the host's files.

mod changes;
mod of_pods;
mod written;

use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use model::ports::files::{FileError, FileKind, HostFiles, Removed};
use model::verdict::Subject;

use super::{Impossible, Play, Report};
use crate::wanted::removal;
use changes::{
    entries_are_inspected_in_order, every_watch_sees_the_changes, file_is_read_with_its_version,
    file_versions_differ_after_a_write, only_a_directory_is_watched, reading_a_special_file_fails,
    watch_ends_when_its_directory_is_removed, watch_reports_changes_in_a_directory,
};
use of_pods::{
    end_of_a_file_is_read, file_is_created_empty_with_its_mode_and_only_once,
    file_is_not_created_outside_its_root, log_is_removed_with_its_rotated_files_only,
    no_link_is_followed_to_the_end_of_a_file, one_rotated_file_is_removed_alone,
    pod_directory_is_removed_recursively,
};
use written::{
    leftover_draft_does_not_prevent_a_write, only_files_are_overwritten,
    only_files_are_replaced_or_removed, overwritten_file_stays_the_same_file,
    written_file_is_private_to_the_agent, written_file_is_removed,
    written_file_replaces_the_old_one,
};

/// The environment of a case, created for each one.
pub trait Harness: Debug + Send + Sync {
    /// The files under test.
    fn files(&self) -> Arc<dyn HostFiles>;

    /// An empty directory of this case.
    fn directory(&self) -> PathBuf;

    /// Writes a file into an existing directory.
    fn write(&self, path: &Path, content: &[u8]);

    /// Creates a link to a target, which need not exist.
    fn put_link(&self, path: &Path, target: &Path);

    /// Creates a special file. Returns false if this is not supported.
    fn special(&self, path: &Path) -> bool;

    /// Removes a file, or a directory with its content.
    fn remove(&self, path: &Path);

    /// Renames a file or directory, replacing the target.
    fn rename(&self, from: &Path, to: &Path);

    /// Mode bits of a file or directory.
    fn mode(&self, path: &Path) -> u32;
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn Harness) -> Play<'a>,
}

impl Case {
    /// Runs the case in its own harness.
    pub async fn run(&self, harness: &dyn Harness) -> Report {
        Report::of(self.name, (self.play)(harness).await)
    }
}

/// Runs all cases, each in a new harness.
pub async fn run<W: Harness>(mut new_harness: impl FnMut() -> W) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(case.run(&new_harness()).await);
    }
    reports
}

cases! {
    path_kind_is_file_or_directory
    links_are_followed
    special_file_is_neither_file_nor_directory
    missing_file_is_not_found
    names_are_listed_in_order
    only_a_directory_is_listed
    file_is_read_whole
    file_over_the_limit_is_not_read
    reading_a_directory_fails
    directory_is_created_with_its_parents
    existing_directory_is_left_unchanged
    file_at_the_path_of_a_new_directory_is_an_error
    directory_is_not_created_outside_its_root
    directory_is_not_created_through_a_link_out_of_its_root
    link_is_created_with_its_directory
    existing_link_is_replaced
    link_to_a_missing_file_is_not_created
    directory_is_removed_recursively_without_following_links
    removing_a_link_keeps_its_target
    removing_a_missing_path_succeeds
    only_the_subject_of_the_verdict_is_removed
    reading_a_special_file_fails
    file_versions_differ_after_a_write
    entries_are_inspected_in_order
    file_is_read_with_its_version
    watch_reports_changes_in_a_directory
    every_watch_sees_the_changes
    watch_ends_when_its_directory_is_removed
    only_a_directory_is_watched
    written_file_is_private_to_the_agent
    written_file_replaces_the_old_one
    leftover_draft_does_not_prevent_a_write
    only_files_are_replaced_or_removed
    written_file_is_removed
    file_is_created_empty_with_its_mode_and_only_once
    file_is_not_created_outside_its_root
    end_of_a_file_is_read
    no_link_is_followed_to_the_end_of_a_file
    log_is_removed_with_its_rotated_files_only
    one_rotated_file_is_removed_alone
    pod_directory_is_removed_recursively
    overwritten_file_stays_the_same_file
    only_files_are_overwritten
}

/// The error of a call that must fail; it must name the path of the call.
fn refused<T: Debug>(result: Result<T, FileError>, path: &Path) -> Result<ErrorKind> {
    match result {
        Ok(answer) => bail!("expected an error about {}, got {answer:?}", path.display()),
        Err(error) => {
            ensure!(error.path == path, "{error:?} is not about {}", path.display());
            ensure!(!error.operation.is_empty(), "{error:?} has no operation");
            Ok(error.source.kind())
        }
    }
}

/// The kind of a path.
async fn kind_of(files: &dyn HostFiles, path: &Path) -> Result<FileKind, FileError> {
    Ok(files.look(path).await?.kind)
}

async fn path_kind_is_file_or_directory(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let file = directory.join("file");
    harness.write(&file, b"text");
    ensure!(kind_of(&*files, &file).await? == FileKind::File);
    ensure!(kind_of(&*files, &directory).await? == FileKind::Directory);
    Ok(())
}

async fn links_are_followed(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    harness.write(&directory.join("file"), b"text");
    harness.put_link(&directory.join("to-file"), Path::new("file"));
    harness.put_link(&directory.join("to-link"), Path::new("to-file"));
    harness.put_link(&directory.join("to-directory"), &directory);
    harness.put_link(&directory.join("to-nothing"), Path::new("nothing"));
    ensure!(kind_of(&*files, &directory.join("to-link")).await? == FileKind::File);
    ensure!(kind_of(&*files, &directory.join("to-directory")).await? == FileKind::Directory);
    let through = directory.join("to-directory/to-file");
    ensure!(files.read(&through, 10).await? == b"text");
    ensure!(files.list(&directory.join("to-directory")).await?.len() == 5);
    let nothing = directory.join("to-nothing");
    ensure!(refused(kind_of(&*files, &nothing).await, &nothing)? == ErrorKind::NotFound);
    Ok(())
}

async fn special_file_is_neither_file_nor_directory(harness: &dyn Harness) -> Result<()> {
    let path = harness.directory().join("special");
    ensure!(harness.special(&path), Impossible("create special files"));
    ensure!(kind_of(&*harness.files(), &path).await? == FileKind::Special);
    Ok(())
}

async fn missing_file_is_not_found(harness: &dyn Harness) -> Result<()> {
    let (files, missing) = (harness.files(), harness.directory().join("missing"));
    for kind in [
        refused(kind_of(&*files, &missing).await, &missing)?,
        refused(files.list(&missing).await, &missing)?,
        refused(files.read(&missing, 10).await, &missing)?,
    ] {
        ensure!(kind == ErrorKind::NotFound, "{kind}");
    }
    let error = kind_of(&*files, &missing).await.err().context("no error")?;
    ensure!(error.is_not_found());
    Ok(())
}

async fn names_are_listed_in_order(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    ensure!(files.list(&directory).await?.is_empty());
    for name in ["b", "a.yaml", ".hidden", "B", "a"] {
        harness.write(&directory.join(name), b"");
    }
    files.create_directory(&directory, Path::new("c/deeper"), 0o755).await?;
    let names = files.list(&directory).await?;
    ensure!(names == [".hidden", "B", "a", "a.yaml", "b", "c"], "{names:?}");
    Ok(())
}

async fn only_a_directory_is_listed(harness: &dyn Harness) -> Result<()> {
    let file = harness.directory().join("file");
    harness.write(&file, b"text");
    let kind = refused(harness.files().list(&file).await, &file)?;
    ensure!(kind == ErrorKind::NotADirectory, "{kind}");
    let below = file.join("below");
    let kind = refused(kind_of(&*harness.files(), &below).await, &below)?;
    ensure!(kind == ErrorKind::NotADirectory, "{kind}");
    Ok(())
}

async fn file_is_read_whole(harness: &dyn Harness) -> Result<()> {
    let (files, path) = (harness.files(), harness.directory().join("file"));
    for content in [&b""[..], b"text\n", &[0, 255, b'\r', b'\n']] {
        harness.write(&path, content);
        let read = files.read(&path, 5).await?;
        ensure!(read == content, "{read:?} instead of {content:?}");
    }
    Ok(())
}

async fn file_over_the_limit_is_not_read(harness: &dyn Harness) -> Result<()> {
    let (files, path) = (harness.files(), harness.directory().join("file"));
    harness.write(&path, b"12345");
    let kind = refused(files.read(&path, 4).await, &path)?;
    ensure!(kind != ErrorKind::NotFound, "{kind}");
    ensure!(files.read(&path, 5).await? == b"12345");
    Ok(())
}

async fn reading_a_directory_fails(harness: &dyn Harness) -> Result<()> {
    let directory = harness.directory();
    let kind = refused(harness.files().read(&directory, 10).await, &directory)?;
    ensure!(kind == ErrorKind::IsADirectory, "{kind}");
    Ok(())
}

async fn directory_is_created_with_its_parents(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory().join("new/root"));
    // No usual umask removes a bit of this mode.
    files.create_directory(&root, Path::new("one/two/three"), 0o750).await?;
    ensure!(kind_of(&*files, &root.join("one/two/three")).await? == FileKind::Directory);
    for path in ["one", "one/two", "one/two/three"] {
        let mode = harness.mode(&root.join(path)) & 0o777;
        ensure!(mode == 0o750, "{path}: {mode:o}");
    }
    Ok(())
}

async fn existing_directory_is_left_unchanged(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    let (here, path) = (Path::new("here"), root.join("here"));
    files.create_directory(&root, here, 0o750).await?;
    harness.write(&path.join("file"), b"text");
    files.create_directory(&root, here, 0o700).await?;
    files.create_directory(&root, &here.join("below"), 0o700).await?;
    ensure!(harness.mode(&path) & 0o777 == 0o750, "{:o}", harness.mode(&path));
    ensure!(files.list(&path).await? == ["below", "file"]);
    Ok(())
}

async fn file_at_the_path_of_a_new_directory_is_an_error(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    harness.write(&root.join("file"), b"text");
    for below in ["file", "file/below"] {
        let made = files.create_directory(&root, Path::new(below), 0o755).await;
        ensure!(made.is_err(), "{below}: created over a file");
    }
    ensure!(files.read(&root.join("file"), 10).await? == b"text");
    Ok(())
}

async fn directory_is_not_created_outside_its_root(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let root = directory.join("root");
    files.create_directory(&root, Path::new("inside"), 0o755).await?;
    let absolute = directory.join("out");
    for below in [Path::new("../out"), Path::new("inside/../../out"), &absolute] {
        let made = files.create_directory(&root, below, 0o755).await;
        ensure!(made.is_err(), "{}: made", below.display());
    }
    ensure!(files.list(&directory).await? == ["root"]);
    Ok(())
}

async fn directory_is_not_created_through_a_link_out_of_its_root(
    harness: &dyn Harness,
) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let (root, outside) = (directory.join("root"), directory.join("outside"));
    for path in [&root, &outside] {
        files.create_directory(path, Path::new("inside"), 0o755).await?;
    }
    harness.put_link(&root.join("relative"), Path::new("../outside"));
    harness.put_link(&root.join("absolute"), &outside);
    for below in ["relative/new", "absolute/new", "inside/../relative/new"] {
        let made = files.create_directory(&root, Path::new(below), 0o755).await;
        ensure!(made.is_err(), "{below}: made");
    }
    ensure!(files.list(&outside).await? == ["inside"]);
    Ok(())
}

async fn link_is_created_with_its_directory(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let (target, link) = (directory.join("file"), directory.join("links/link"));
    harness.write(&target, b"text");
    files.link(&target, &link).await?;
    ensure!(files.read(&link, 10).await? == b"text");
    harness.write(&target, b"changed");
    ensure!(files.read(&link, 10).await? == b"changed", "a copy, not a link");
    Ok(())
}

async fn existing_link_is_replaced(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    let (old, new, link) = (directory.join("old"), directory.join("new"), directory.join("link"));
    harness.write(&old, b"old");
    harness.write(&new, b"new");
    files.link(&old, &link).await?;
    files.link(&new, &link).await?;
    ensure!(files.read(&link, 10).await? == b"new");
    ensure!(files.read(&old, 10).await? == b"old", "the old target was changed");

    harness.put_link(&directory.join("dangling"), &directory.join("nothing"));
    files.link(&new, &directory.join("dangling")).await?;
    ensure!(files.read(&directory.join("dangling"), 10).await? == b"new");
    ensure!(files.list(&directory).await? == ["dangling", "link", "new", "old"]);
    Ok(())
}

async fn link_to_a_missing_file_is_not_created(harness: &dyn Harness) -> Result<()> {
    let (files, directory) = (harness.files(), harness.directory());
    files.link(&directory.join("nothing"), &directory.join("link")).await?;
    ensure!(files.list(&directory).await?.is_empty());
    Ok(())
}

async fn directory_is_removed_recursively_without_following_links(
    harness: &dyn Harness,
) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    for path in ["kept/below", "logs/main"] {
        files.create_directory(&root, Path::new(path), 0o755).await?;
    }
    harness.write(&root.join("kept/file"), b"text");
    harness.write(&root.join("logs/main/0.log"), b"text");
    harness.put_link(&root.join("logs/main/link"), &root.join("kept"));
    files.remove(&root, &removal(Subject::PodLogs(root.join("logs")))).await?;
    ensure!(files.list(&root).await? == ["kept"]);
    ensure!(files.list(&root.join("kept")).await? == ["below", "file"]);
    Ok(())
}

async fn removing_a_link_keeps_its_target(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    harness.write(&root.join("file"), b"text");
    for (name, target) in [("link", "file"), ("dangling", "nothing")] {
        harness.put_link(&root.join(name), &root.join(target));
        let removed = files.remove(&root, &removal(Subject::LogLink(root.join(name)))).await?;
        ensure!(removed == Removed::Now);
    }
    ensure!(files.list(&root).await? == ["file"]);
    Ok(())
}

async fn removing_a_missing_path_succeeds(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    for root in [root.clone(), root.join("missing")] {
        for subject in [
            Subject::PodLogs(root.join("logs")),
            Subject::LogLink(root.join("link")),
            Subject::ContainerLog(root.join("pod/main/0.log")),
        ] {
            let removed = files.remove(&root, &removal(subject.clone())).await?;
            ensure!(removed == Removed::Before, "{subject}");
        }
    }
    Ok(())
}

async fn only_the_subject_of_the_verdict_is_removed(harness: &dyn Harness) -> Result<()> {
    let (files, root) = (harness.files(), harness.directory());
    files.create_directory(&root, Path::new("logs/below"), 0o755).await?;
    harness.write(&root.join("file"), b"text");
    harness.put_link(&root.join("link"), &root.join("logs"));
    let rows = [
        Subject::PodLogs(root.join("file")),
        Subject::PodLogs(root.join("link")),
        Subject::PodLogs(root.join("logs/below")),
        Subject::PodLogs(root.join("logs/..")),
        Subject::LogLink(root.join("file")),
        Subject::LogLink(root.join("logs")),
        Subject::Image("image".to_owned()),
    ];
    for subject in rows {
        let removed = files.remove(&root, &removal(subject.clone())).await;
        ensure!(removed.is_err(), "{subject} was removed");
    }
    ensure!(files.list(&root).await? == ["file", "link", "logs"]);
    ensure!(files.list(&root.join("logs")).await? == ["below"]);
    Ok(())
}
