//! Groups of volumes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use model::ports::volumes::FileSystem;
use model::volume::Ownership;

use super::content::payload;
use super::{Harness, made, refused};

const GROUP: Ownership = Ownership { group: 2000, read_only: false, only_on_root_mismatch: false };

fn is(harness: &dyn Harness, path: &Path, group: u32, mode: u32) -> Result<()> {
    let found = (harness.group(path), harness.mode(path) & 0o7777);
    ensure!(found == (group, mode), "{}: group {} mode {:o}", path.display(), found.0, found.1);
    Ok(())
}

pub(super) async fn group_is_set_on_files_directories_and_links(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    made(harness, "data/inner").await?;
    let (path, outside) = (volume.path(), harness.directory().join("outside"));
    harness.write(&outside, b"text");
    for number in 0..1500 {
        harness.write(&path.join(format!("inner/{number}")), b"");
    }
    harness.write(&path.join("file"), b"text");
    harness.put_link(&path.join("link"), &outside);
    let outside_before = harness.mode(&outside) & 0o7777;
    let reported = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&reported);
    let progress = Arc::new(move |files| _ = sum.fetch_add(files, Ordering::Relaxed));
    volumes.set_ownership(&volume, &GROUP, progress).await?;
    is(harness, &path, 2000, 0o2775)?;
    ensure!(volumes.group(&volume).await? == 2000);
    is(harness, &path.join("inner"), 2000, 0o2775)?;
    is(harness, &path.join("file"), 2000, 0o664)?;
    is(harness, &path.join("inner/1499"), 2000, 0o664)?;
    ensure!(harness.group(&path.join("link")) == 2000, "the link has its old group");
    is(harness, &outside, 0, outside_before)?;
    ensure!(reported.load(Ordering::Relaxed) == 1000, "{reported:?}");
    let missing = super::place(harness, "missing");
    refused(volumes.set_ownership(&missing, &GROUP, Arc::new(|_| {})).await, &missing.path())?;
    refused(volumes.group(&missing).await, &missing.path())?;
    Ok(())
}

pub(super) async fn group_of_a_fitting_root_is_left_alone(harness: &dyn Harness) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let file = volume.path().join("file");
    let lazy = Ownership { only_on_root_mismatch: true, ..GROUP };
    volumes.set_ownership(&volume, &lazy, Arc::new(|_| {})).await?;
    is(harness, &volume.path(), 2000, 0o2775)?;
    harness.write(&file, b"text");
    let before = (harness.group(&file), harness.mode(&file) & 0o7777);
    volumes.set_ownership(&volume, &lazy, Arc::new(|_| {})).await?;
    is(harness, &file, before.0, before.1)?;
    let other = Ownership { group: 3000, ..lazy };
    volumes.set_ownership(&volume, &other, Arc::new(|_| {})).await?;
    is(harness, &file, 3000, before.1 | 0o660)?;
    Ok(())
}

pub(super) async fn other_mounts_keep_their_group(harness: &dyn Harness) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let inner = made(harness, "data/inner").await?;
    let memory = FileSystem::Tmpfs { size: Some(1 << 20), no_swap: false };
    volumes.mount(&inner, &memory).await?;
    volumes.make_directory(&inner, 0o700).await?;
    volumes.set_ownership(&volume, &GROUP, Arc::new(|_| {})).await?;
    ensure!(harness.group(&inner.path()) == 0, "the root of another mount was changed");
    ensure!(harness.mode(&inner.path()) & 0o777 == 0o700);
    is(harness, &volume.path(), 2000, 0o2775)
}

pub(super) async fn group_is_set_on_new_payload(harness: &dyn Harness) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let mut wanted = payload(&[("a", "one"), ("b", "two")]);
    wanted.files.get_mut("a").context("the file exists")?.mode = 0o600;
    let ownership = Ownership { read_only: true, ..GROUP };
    volumes.write_payload(&volume, &wanted, Some(&ownership)).await?;
    is(harness, &volume.path(), 2000, 0o2755)?;
    let names = harness.files().list(&volume.path()).await?;
    let time = names.iter().find(|name| name.contains('_')).context("no timestamped directory")?;
    let time = volume.path().join(time);
    is(harness, &time, 2000, 0o2755)?;
    is(harness, &time.join("a"), 2000, 0o640)?;
    is(harness, &time.join("b"), 2000, 0o644)
}
