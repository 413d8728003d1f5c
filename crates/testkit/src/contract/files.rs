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

/// What a case needs beside the port. Made anew for every case.
pub trait World: Debug + Send + Sync {
    /// The files to look at.
    fn files(&self) -> Arc<dyn HostFiles>;

    /// An empty directory for one case alone.
    fn directory(&self) -> PathBuf;

    /// Writes a file into a directory that exists.
    fn write(&self, path: &Path, content: &[u8]);

    /// Makes a link to a target, which need not exist.
    fn put_link(&self, path: &Path, target: &Path);

    /// Makes something that is neither file nor directory. False if this world cannot.
    fn special(&self, path: &Path) -> bool;

    /// Removes a file, or a directory with all that is in it.
    fn remove(&self, path: &Path);

    /// Moves a file or directory in place of what is there.
    fn rename(&self, from: &Path, to: &Path);

    /// Mode bits of a file or directory.
    fn mode(&self, path: &Path) -> u32;
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it says, in a sentence.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn World) -> Play<'a>,
}

impl Case {
    /// Plays the case in a world of its own.
    pub async fn run(&self, world: &dyn World) -> Report {
        Report::of(self.name, (self.play)(world).await)
    }
}

/// Runs all cases, each in a new world.
pub async fn run<W: World>(mut new_world: impl FnMut() -> W) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(case.run(&new_world()).await);
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

/// The error of a call that must fail, about the path it was made with.
fn refused<T: Debug>(result: Result<T, FileError>, path: &Path) -> Result<ErrorKind> {
    match result {
        Ok(answer) => bail!("expected an error about {}, got {answer:?}", path.display()),
        Err(error) => {
            ensure!(error.path == path, "{error:?} is not about {}", path.display());
            ensure!(!error.operation.is_empty(), "{error:?} does not say what was tried");
            Ok(error.source.kind())
        }
    }
}

/// What a path is.
async fn kind_of(files: &dyn HostFiles, path: &Path) -> Result<FileKind, FileError> {
    Ok(files.look(path).await?.kind)
}

async fn path_kind_is_file_or_directory(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    let file = directory.join("file");
    world.write(&file, b"text");
    ensure!(kind_of(&*files, &file).await? == FileKind::File);
    ensure!(kind_of(&*files, &directory).await? == FileKind::Directory);
    Ok(())
}

async fn links_are_followed(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    world.write(&directory.join("file"), b"text");
    world.put_link(&directory.join("to-file"), Path::new("file"));
    world.put_link(&directory.join("to-link"), Path::new("to-file"));
    world.put_link(&directory.join("to-directory"), &directory);
    world.put_link(&directory.join("to-nothing"), Path::new("nothing"));
    ensure!(kind_of(&*files, &directory.join("to-link")).await? == FileKind::File);
    ensure!(kind_of(&*files, &directory.join("to-directory")).await? == FileKind::Directory);
    let through = directory.join("to-directory/to-file");
    ensure!(files.read(&through, 10).await? == b"text");
    ensure!(files.list(&directory.join("to-directory")).await?.len() == 5);
    let nothing = directory.join("to-nothing");
    ensure!(refused(kind_of(&*files, &nothing).await, &nothing)? == ErrorKind::NotFound);
    Ok(())
}

async fn special_file_is_neither_file_nor_directory(world: &dyn World) -> Result<()> {
    let path = world.directory().join("special");
    ensure!(world.special(&path), Impossible("make special files"));
    ensure!(kind_of(&*world.files(), &path).await? == FileKind::Special);
    Ok(())
}

async fn missing_file_is_not_found(world: &dyn World) -> Result<()> {
    let (files, missing) = (world.files(), world.directory().join("missing"));
    for kind in [
        refused(kind_of(&*files, &missing).await, &missing)?,
        refused(files.list(&missing).await, &missing)?,
        refused(files.read(&missing, 10).await, &missing)?,
    ] {
        ensure!(kind == ErrorKind::NotFound, "{kind}");
    }
    let error = kind_of(&*files, &missing).await.err().context("expected an error")?;
    ensure!(error.is_not_found());
    Ok(())
}

async fn names_are_listed_in_order(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    ensure!(files.list(&directory).await?.is_empty());
    for name in ["b", "a.yaml", ".hidden", "B", "a"] {
        world.write(&directory.join(name), b"");
    }
    files.create_directory(&directory, Path::new("c/deeper"), 0o755).await?;
    let names = files.list(&directory).await?;
    ensure!(names == [".hidden", "B", "a", "a.yaml", "b", "c"], "{names:?}");
    Ok(())
}

async fn only_a_directory_is_listed(world: &dyn World) -> Result<()> {
    let file = world.directory().join("file");
    world.write(&file, b"text");
    let kind = refused(world.files().list(&file).await, &file)?;
    ensure!(kind == ErrorKind::NotADirectory, "{kind}");
    let below = file.join("below");
    let kind = refused(kind_of(&*world.files(), &below).await, &below)?;
    ensure!(kind == ErrorKind::NotADirectory, "{kind}");
    Ok(())
}

async fn file_is_read_whole(world: &dyn World) -> Result<()> {
    let (files, path) = (world.files(), world.directory().join("file"));
    for content in [&b""[..], b"text\n", &[0, 255, b'\r', b'\n']] {
        world.write(&path, content);
        let read = files.read(&path, 5).await?;
        ensure!(read == content, "{read:?} instead of {content:?}");
    }
    Ok(())
}

async fn file_over_the_limit_is_not_read(world: &dyn World) -> Result<()> {
    let (files, path) = (world.files(), world.directory().join("file"));
    world.write(&path, b"12345");
    let kind = refused(files.read(&path, 4).await, &path)?;
    ensure!(kind != ErrorKind::NotFound, "{kind}");
    ensure!(files.read(&path, 5).await? == b"12345");
    Ok(())
}

async fn reading_a_directory_fails(world: &dyn World) -> Result<()> {
    let directory = world.directory();
    let kind = refused(world.files().read(&directory, 10).await, &directory)?;
    ensure!(kind == ErrorKind::IsADirectory, "{kind}");
    Ok(())
}

async fn directory_is_created_with_its_parents(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory().join("new/root"));
    // No bit of this mode is one that a usual umask takes away.
    files.create_directory(&root, Path::new("one/two/three"), 0o750).await?;
    ensure!(kind_of(&*files, &root.join("one/two/three")).await? == FileKind::Directory);
    for path in ["one", "one/two", "one/two/three"] {
        let mode = world.mode(&root.join(path)) & 0o777;
        ensure!(mode == 0o750, "{path}: {mode:o}");
    }
    Ok(())
}

async fn existing_directory_is_left_unchanged(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory());
    let (here, path) = (Path::new("here"), root.join("here"));
    files.create_directory(&root, here, 0o750).await?;
    world.write(&path.join("file"), b"text");
    files.create_directory(&root, here, 0o700).await?;
    files.create_directory(&root, &here.join("below"), 0o700).await?;
    ensure!(world.mode(&path) & 0o777 == 0o750, "{:o}", world.mode(&path));
    ensure!(files.list(&path).await? == ["below", "file"]);
    Ok(())
}

async fn file_at_the_path_of_a_new_directory_is_an_error(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory());
    world.write(&root.join("file"), b"text");
    for below in ["file", "file/below"] {
        let made = files.create_directory(&root, Path::new(below), 0o755).await;
        ensure!(made.is_err(), "{below}: made over a file");
    }
    ensure!(files.read(&root.join("file"), 10).await? == b"text");
    Ok(())
}

async fn directory_is_not_created_outside_its_root(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
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

async fn directory_is_not_created_through_a_link_out_of_its_root(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    let (root, outside) = (directory.join("root"), directory.join("outside"));
    for path in [&root, &outside] {
        files.create_directory(path, Path::new("inside"), 0o755).await?;
    }
    world.put_link(&root.join("relative"), Path::new("../outside"));
    world.put_link(&root.join("absolute"), &outside);
    for below in ["relative/new", "absolute/new", "inside/../relative/new"] {
        let made = files.create_directory(&root, Path::new(below), 0o755).await;
        ensure!(made.is_err(), "{below}: made");
    }
    ensure!(files.list(&outside).await? == ["inside"]);
    Ok(())
}

async fn link_is_created_with_its_directory(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    let (target, link) = (directory.join("file"), directory.join("links/link"));
    world.write(&target, b"text");
    files.link(&target, &link).await?;
    ensure!(files.read(&link, 10).await? == b"text");
    world.write(&target, b"changed");
    ensure!(files.read(&link, 10).await? == b"changed", "a copy, not a link");
    Ok(())
}

async fn existing_link_is_replaced(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    let (old, new, link) = (directory.join("old"), directory.join("new"), directory.join("link"));
    world.write(&old, b"old");
    world.write(&new, b"new");
    files.link(&old, &link).await?;
    files.link(&new, &link).await?;
    ensure!(files.read(&link, 10).await? == b"new");
    ensure!(files.read(&old, 10).await? == b"old", "the old target was changed");

    world.put_link(&directory.join("dangling"), &directory.join("nothing"));
    files.link(&new, &directory.join("dangling")).await?;
    ensure!(files.read(&directory.join("dangling"), 10).await? == b"new");
    ensure!(files.list(&directory).await? == ["dangling", "link", "new", "old"]);
    Ok(())
}

async fn link_to_a_missing_file_is_not_created(world: &dyn World) -> Result<()> {
    let (files, directory) = (world.files(), world.directory());
    files.link(&directory.join("nothing"), &directory.join("link")).await?;
    ensure!(files.list(&directory).await?.is_empty());
    Ok(())
}

async fn directory_is_removed_recursively_without_following_links(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory());
    for path in ["kept/below", "logs/main"] {
        files.create_directory(&root, Path::new(path), 0o755).await?;
    }
    world.write(&root.join("kept/file"), b"text");
    world.write(&root.join("logs/main/0.log"), b"text");
    world.put_link(&root.join("logs/main/link"), &root.join("kept"));
    files.remove(&root, &removal(Subject::PodLogs(root.join("logs")))).await?;
    ensure!(files.list(&root).await? == ["kept"]);
    ensure!(files.list(&root.join("kept")).await? == ["below", "file"]);
    Ok(())
}

async fn removing_a_link_keeps_its_target(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory());
    world.write(&root.join("file"), b"text");
    for (name, target) in [("link", "file"), ("dangling", "nothing")] {
        world.put_link(&root.join(name), &root.join(target));
        let removed = files.remove(&root, &removal(Subject::LogLink(root.join(name)))).await?;
        ensure!(removed == Removed::Now);
    }
    ensure!(files.list(&root).await? == ["file"]);
    Ok(())
}

async fn removing_a_missing_path_succeeds(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory());
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

async fn only_the_subject_of_the_verdict_is_removed(world: &dyn World) -> Result<()> {
    let (files, root) = (world.files(), world.directory());
    files.create_directory(&root, Path::new("logs/below"), 0o755).await?;
    world.write(&root.join("file"), b"text");
    world.put_link(&root.join("link"), &root.join("logs"));
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
