//! Groups of volumes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use model::ports::volumes::FileSystem;
use model::volume::Ownership;

use super::content::payload;
use super::{World, made, refused};

const GROUP: Ownership = Ownership { group: 2000, read_only: false, only_on_root_mismatch: false };

fn is(world: &dyn World, path: &Path, group: u32, mode: u32) -> Result<()> {
    let found = (world.group(path), world.mode(path) & 0o7777);
    ensure!(found == (group, mode), "{}: group {} mode {:o}", path.display(), found.0, found.1);
    Ok(())
}

pub(super) async fn group_is_set_on_files_directories_and_links(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "data").await?);
    made(world, "data/inner").await?;
    let (path, outside) = (volume.path(), world.directory().join("outside"));
    world.write(&outside, b"text");
    for number in 0..1500 {
        world.write(&path.join(format!("inner/{number}")), b"");
    }
    world.write(&path.join("file"), b"text");
    world.put_link(&path.join("link"), &outside);
    let outside_before = world.mode(&outside) & 0o7777;
    let reported = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&reported);
    let progress = Arc::new(move |files| _ = sum.fetch_add(files, Ordering::Relaxed));
    volumes.set_ownership(&volume, &GROUP, progress).await?;
    is(world, &path, 2000, 0o2775)?;
    ensure!(volumes.group(&volume).await? == 2000);
    is(world, &path.join("inner"), 2000, 0o2775)?;
    is(world, &path.join("file"), 2000, 0o664)?;
    is(world, &path.join("inner/1499"), 2000, 0o664)?;
    ensure!(world.group(&path.join("link")) == 2000, "the link has its old group");
    is(world, &outside, 0, outside_before)?;
    ensure!(reported.load(Ordering::Relaxed) == 1000, "{reported:?}");
    let missing = super::place(world, "missing");
    refused(volumes.set_ownership(&missing, &GROUP, Arc::new(|_| {})).await, &missing.path())?;
    refused(volumes.group(&missing).await, &missing.path())?;
    Ok(())
}

pub(super) async fn group_of_a_fitting_root_is_left_alone(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "data").await?);
    let file = volume.path().join("file");
    let lazy = Ownership { only_on_root_mismatch: true, ..GROUP };
    volumes.set_ownership(&volume, &lazy, Arc::new(|_| {})).await?;
    is(world, &volume.path(), 2000, 0o2775)?;
    world.write(&file, b"text");
    let before = (world.group(&file), world.mode(&file) & 0o7777);
    volumes.set_ownership(&volume, &lazy, Arc::new(|_| {})).await?;
    is(world, &file, before.0, before.1)?;
    let other = Ownership { group: 3000, ..lazy };
    volumes.set_ownership(&volume, &other, Arc::new(|_| {})).await?;
    is(world, &file, 3000, before.1 | 0o660)?;
    Ok(())
}

pub(super) async fn other_mounts_keep_their_group(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "data").await?);
    let inner = made(world, "data/inner").await?;
    let memory = FileSystem::Tmpfs { size: Some(1 << 20), no_swap: false };
    volumes.mount(&inner, &memory).await?;
    volumes.make_directory(&inner, 0o700).await?;
    volumes.set_ownership(&volume, &GROUP, Arc::new(|_| {})).await?;
    ensure!(world.group(&inner.path()) == 0, "the root of another mount was changed");
    ensure!(world.mode(&inner.path()) & 0o777 == 0o700);
    is(world, &volume.path(), 2000, 0o2775)
}

pub(super) async fn group_is_set_on_new_payload(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "data").await?);
    let mut wanted = payload(&[("a", "one"), ("b", "two")]);
    wanted.files.get_mut("a").context("it is there")?.mode = 0o600;
    let ownership = Ownership { read_only: true, ..GROUP };
    volumes.write_payload(&volume, &wanted, Some(&ownership)).await?;
    is(world, &volume.path(), 2000, 0o2755)?;
    let names = world.files().list(&volume.path()).await?;
    let time = names.iter().find(|name| name.contains('_')).context("no directory of content")?;
    let time = volume.path().join(time);
    is(world, &time, 2000, 0o2755)?;
    is(world, &time.join("a"), 2000, 0o640)?;
    is(world, &time.join("b"), 2000, 0o644)
}
