//! The contract of the port to log files.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use model::ports::files::FileError;
use model::ports::log_files::{Cancel, LogFiles};
use tokio::time::timeout;

use super::{Play, Report};

/// How long a watch may take to fire.
const SOON: Duration = Duration::from_secs(5);

/// The environment of a case, created for each one.
pub trait Harness: Debug + Send + Sync {
    /// The files under test.
    fn files(&self) -> Arc<dyn LogFiles>;

    /// An empty directory of this case.
    fn directory(&self) -> PathBuf;

    /// Writes a file, and creates its directories.
    fn write(&self, path: &Path, content: &[u8]);

    /// Appends to a file.
    fn append(&self, path: &Path, content: &[u8]);

    /// Creates a link to a target.
    fn put_link(&self, path: &Path, target: &Path);

    /// The content of a file, if it exists.
    fn content(&self, path: &Path) -> Option<Vec<u8>>;

    /// The decompressed text of a gzip.
    fn unzipped(&self, path: &Path) -> Result<Vec<u8>>;

    /// Mode bits of a file.
    fn mode(&self, path: &Path) -> u32;
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn Harness) -> Play<'a>,
}

/// Runs all cases, each in a new harness.
pub async fn run<W: Harness>(mut new_harness: impl FnMut() -> W) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        let harness = new_harness();
        reports.push(Report::of(case.name, (case.play)(&harness).await));
    }
    reports
}

cases! {
    sizes_are_those_of_regular_files
    files_are_listed_by_name_with_their_sizes
    rename_moves_a_file_within_its_directory
    rename_never_replaces_a_file
    compression_replaces_a_file_by_its_gzip
    cancelled_compression_leaves_the_file
    compression_keeps_an_existing_gzip
    watch_fires_at_the_next_write
    watch_follows_a_renamed_file
    links_are_not_followed
}

const ROTATED: &str = "0.log.20260101-000000";

fn log(harness: &dyn Harness) -> PathBuf {
    harness.directory().join("ns_pod_uid/main/0.log")
}

fn kind<T: Debug>(result: Result<T, FileError>) -> Result<ErrorKind> {
    match result {
        Ok(done) => bail!("expected an error, got {done:?}"),
        Err(error) => Ok(error.source.kind()),
    }
}

async fn sizes_are_those_of_regular_files(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    harness.write(&log, b"12345");
    ensure!(files.size(&log).await? == 5);
    harness.append(&log, b"67");
    ensure!(files.size(&log).await? == 7);
    let error = files.size(&log.with_file_name("1.log")).await;
    ensure!(kind(error)? == ErrorKind::NotFound);
    let directory = log.parent().context("it has a directory")?;
    harness.write(&directory.join("below/x"), b"");
    ensure!(files.size(&directory.join("below")).await.is_err());
    ensure!(files.size(Path::new("0.log")).await.is_err());
    Ok(())
}

async fn files_are_listed_by_name_with_their_sizes(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    for (name, content) in [("1.log", "1"), ("0.log.x", "123"), ("0.log", "12"), ("below/x", "")] {
        harness.write(&log.with_file_name(name), content.as_bytes());
    }
    let listed = files.list(&log).await?;
    let listed: Vec<_> = listed.iter().map(|file| (file.name.as_str(), file.size)).collect();
    ensure!(listed == [("0.log", 2), ("0.log.x", 3), ("1.log", 1)], "{listed:?}");
    let missing = harness.directory().join("ns_pod_uid/other/0.log");
    ensure!(kind(files.list(&missing).await)? == ErrorKind::NotFound);
    Ok(())
}

async fn rename_moves_a_file_within_its_directory(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let rotated = log.with_file_name(ROTATED);
    harness.write(&log, b"text");
    files.rename(&log, &rotated).await?;
    ensure!(harness.content(&log).is_none());
    ensure!(harness.content(&rotated).as_deref() == Some(b"text".as_slice()));
    ensure!(kind(files.rename(&log, &rotated).await)? == ErrorKind::NotFound);
    let elsewhere = harness.directory().join("ns_pod_uid/other/0.log");
    harness.write(&elsewhere.with_file_name("1.log"), b"");
    ensure!(files.rename(&rotated, &elsewhere).await.is_err());
    Ok(())
}

async fn rename_never_replaces_a_file(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let rotated = log.with_file_name(ROTATED);
    harness.write(&log, b"new");
    harness.write(&rotated, b"old");
    ensure!(kind(files.rename(&log, &rotated).await)? == ErrorKind::AlreadyExists);
    ensure!(harness.content(&log).as_deref() == Some(b"new".as_slice()));
    ensure!(harness.content(&rotated).as_deref() == Some(b"old".as_slice()));
    Ok(())
}

async fn compression_replaces_a_file_by_its_gzip(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let rotated = log.with_file_name(ROTATED);
    let text: Vec<u8> = (0..20_000).flat_map(|n: u32| format!("line {n}\n").into_bytes()).collect();
    harness.write(&rotated, &text);
    let mode = harness.mode(&rotated);
    // The unfinished file of an earlier agent is replaced.
    harness.write(&log.with_file_name(format!("{ROTATED}.tmp")), b"half");
    let size = files.compress(&rotated, &Cancel::default()).await?;
    let gzip = log.with_file_name(format!("{ROTATED}.gz"));
    ensure!(harness.unzipped(&gzip)? == text);
    ensure!(harness.mode(&gzip) == mode);
    let content = harness.content(&gzip).context("the gzip exists")?;
    ensure!(content.len() as u64 == size);
    ensure!(harness.content(&rotated).is_none());
    ensure!(kind(files.compress(&rotated, &Cancel::default()).await)? == ErrorKind::NotFound);
    Ok(())
}

async fn cancelled_compression_leaves_the_file(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let rotated = log.with_file_name(ROTATED);
    harness.write(&rotated, b"text");
    let cancel = Cancel::default();
    cancel.cancel();
    ensure!(kind(files.compress(&rotated, &cancel).await)? == ErrorKind::Interrupted);
    let listed = files.list(&log).await?;
    ensure!(listed.len() == 1 && listed[0].name == ROTATED, "{listed:?}");
    Ok(())
}

async fn compression_keeps_an_existing_gzip(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let rotated = log.with_file_name(ROTATED);
    let gzip = log.with_file_name(format!("{ROTATED}.gz"));
    harness.write(&rotated, b"text");
    harness.write(&gzip, b"other");
    let error = files.compress(&rotated, &Cancel::default()).await;
    ensure!(kind(error)? == ErrorKind::AlreadyExists);
    ensure!(harness.content(&rotated).as_deref() == Some(b"text".as_slice()));
    ensure!(harness.content(&gzip).as_deref() == Some(b"other".as_slice()));
    ensure!(files.list(&log).await?.len() == 2);
    Ok(())
}

async fn watch_fires_at_the_next_write(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    harness.write(&log, b"");
    for _ in 0..3 {
        let mut written = files.watch(&log).await?;
        tokio::select! {
            biased;
            () = &mut written => bail!("fired without a write"),
            () = std::future::ready(()) => {}
        }
        harness.append(&log, b"text");
        timeout(SOON, written).await?;
    }
    // Dropping a watch does not disturb others.
    let (dropped, written) = (files.watch(&log).await?, files.watch(&log).await?);
    drop(dropped);
    drop(written);
    let written = files.watch(&log).await?;
    harness.append(&log, b"text");
    timeout(SOON, written).await?;
    ensure!(files.watch(&log.with_file_name("1.log")).await.is_err());
    Ok(())
}

async fn watch_follows_a_renamed_file(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let rotated = log.with_file_name(ROTATED);
    harness.write(&log, b"");
    let written = files.watch(&log).await?;
    files.rename(&log, &rotated).await?;
    harness.append(&rotated, b"text");
    timeout(SOON, written).await?;
    Ok(())
}

async fn links_are_not_followed(harness: &dyn Harness) -> Result<()> {
    let (files, log) = (harness.files(), log(harness));
    let secret = harness.directory().join("outside/secret/file");
    harness.write(&secret, b"secret");
    harness.write(&log.with_file_name("1.log"), b"");
    harness.put_link(&log, &secret);
    let container = harness.directory().join("ns_pod_uid/linked");
    harness.put_link(&container, secret.parent().context("it has a directory")?);
    for path in [log.clone(), container.join("file")] {
        ensure!(files.size(&path).await.is_err(), "{}", path.display());
        ensure!(files.compress(&path, &Cancel::default()).await.is_err());
        ensure!(files.rename(&path, &path.with_file_name("x")).await.is_err());
    }
    ensure!(harness.content(&secret).as_deref() == Some(b"secret".as_slice()));
    Ok(())
}
