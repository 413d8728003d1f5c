//! Subpaths of volumes.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use model::ports::volumes::{Subpath, SubpathError};

use super::content::payload;
use super::{Harness, made, place, refused};

/// A subpath of the volume `volume`, mounted at the mount point with this number.
fn part(harness: &dyn Harness, path: &str, number: usize) -> Subpath {
    Subpath {
        volume: harness.directory().join("volume"),
        path: path.into(),
        target: place(harness, "pod/volume-subpaths").join(format!("data/main/{number}")),
    }
}

pub(super) async fn missing_directory_is_made_with_the_mode_of_the_root(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "volume").await?);
    volumes.make_directory(&volume, 0o770).await?;
    let part = part(harness, "a/b", 0);
    volumes.bind_subpath(&part).await?;
    for path in ["a", "a/b"] {
        let mode = harness.mode(&volume.path().join(path)) & 0o7777;
        ensure!(mode == 0o770, "{path}: {mode:o}");
    }
    harness.write(&part.target.path().join("file"), b"text");
    ensure!(harness.files().read(&volume.path().join("a/b/file"), 10).await? == b"text");
    Ok(())
}

pub(super) async fn links_inside_the_volume_lead_to_their_target(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "volume").await?);
    made(harness, "volume/real/deep").await?;
    harness.write(&volume.path().join("real/file"), b"text");
    harness.put_link(&volume.path().join("relative"), Path::new("real"));
    harness.put_link(&volume.path().join("absolute"), &volume.path().join("real"));
    volumes.write_payload(&volume, &payload(&[("key", "value")]), None).await?;
    for (number, path) in ["relative", "absolute", "real/.", "absolute/deep/.."].iter().enumerate()
    {
        let part = part(harness, path, number);
        if path.ends_with("..") {
            ensure!(volumes.bind_subpath(&part).await.is_err(), "{path}");
            continue;
        }
        volumes.bind_subpath(&part).await?;
        let read = harness.files().read(&part.target.path().join("file"), 10).await?;
        ensure!(read == b"text", "{path}");
    }
    let key = part(harness, "key", 9);
    volumes.bind_subpath(&key).await?;
    ensure!(harness.files().read(&key.target.path(), 10).await? == b"value");
    let new = part(harness, "relative/new", 10);
    volumes.bind_subpath(&new).await?;
    ensure!(harness.files().list(&volume.path().join("real")).await? == ["deep", "file", "new"]);
    Ok(())
}

pub(super) async fn links_out_of_the_volume_are_refused(harness: &dyn Harness) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "volume").await?);
    made(harness, "outside").await?;
    let path = volume.path();
    harness.write(&harness.directory().join("outside/file"), b"text");
    harness.put_link(&path.join("root"), Path::new("/"));
    harness.put_link(&path.join("up"), Path::new(".."));
    harness.put_link(&path.join("outside"), &harness.directory().join("outside"));
    harness.put_link(&path.join("file"), &harness.directory().join("outside/file"));
    harness.put_link(&path.join("nowhere"), &harness.directory().join("outside/new"));
    let rows = [
        "root",
        "root/etc",
        "up",
        "up/outside",
        "outside",
        "outside/new",
        "file",
        "nowhere",
        "nowhere/new",
        "../outside",
        "/etc",
    ];
    for (number, path) in rows.into_iter().enumerate() {
        match volumes.bind_subpath(&part(harness, path, number)).await {
            Err(SubpathError::Create { .. } | SubpathError::Prepare { .. }) => {}
            Ok(()) => bail!("{path} is mounted"),
        }
    }
    ensure!(volumes.mounts(&harness.directory()).await?.is_empty());
    ensure!(harness.files().list(&harness.directory().join("outside")).await? == ["file"]);
    Ok(())
}

pub(super) async fn subpath_that_changed_is_mounted_again(harness: &dyn Harness) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "volume").await?);
    made(harness, "volume/one").await?;
    made(harness, "volume/two").await?;
    harness.write(&volume.path().join("two/file"), b"two");
    harness.write(&volume.path().join("three"), b"three");
    let part = part(harness, "link", 0);
    for (target, content) in [("one", None), ("one", None), ("two", Some("two"))] {
        harness.put_link(&volume.path().join("link"), Path::new(target));
        volumes.bind_subpath(&part).await?;
        let found = harness.files().read(&part.target.path().join("file"), 10).await.ok();
        ensure!(found.as_deref() == content.map(str::as_bytes), "{target}");
        ensure!(volumes.mounts(&harness.directory()).await?.len() == 1, "{target}");
        harness.remove(&volume.path().join("link"));
    }
    harness.put_link(&volume.path().join("link"), Path::new("three"));
    volumes.bind_subpath(&part).await?;
    ensure!(harness.files().read(&part.target.path(), 10).await? == b"three");
    Ok(())
}

pub(super) async fn subpath_mounts_are_cleaned_with_their_places(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "volume").await?);
    let (subpaths, path) = (place(harness, "pod/volume-subpaths"), volume.path());
    harness.write(&path.join("file"), b"text");
    for (number, name) in ["a", "b", "file"].into_iter().enumerate() {
        volumes.bind_subpath(&part(harness, name, number)).await?;
    }
    let mut other = part(harness, "a", 0);
    other.target = subpaths.join("other/main/0");
    volumes.bind_subpath(&other).await?;
    volumes.clean_subpaths(&subpaths, "data").await?;
    volumes.clean_subpaths(&subpaths, "data").await?;
    ensure!(volumes.directories(&subpaths).await? == ["other"]);
    ensure!(harness.files().list(&path).await? == ["a", "b", "file"]);
    ensure!(volumes.mounts(&harness.directory()).await?.len() == 1);
    volumes.clean_subpaths(&subpaths, "other").await?;
    ensure!(volumes.directories(&place(harness, "pod")).await?.is_empty());
    // Leftovers of a container or a crash are not removed.
    let left = subpaths.path().join("data/main/0/file");
    made(harness, "pod/volume-subpaths/data/main/0").await?;
    harness.write(&left, b"text");
    refused(volumes.clean_subpaths(&subpaths, "data").await, &subpaths.path())?;
    ensure!(harness.files().read(&left, 10).await? == b"text");
    Ok(())
}

pub(super) async fn file_in_a_volume_is_read_through_inner_links(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "volume").await?);
    let (path, outside) = (volume.path(), harness.directory().join("outside"));
    harness.write(&outside, b"secret");
    volumes.write_payload(&volume, &payload(&[("env", "KEY=value")]), None).await?;
    harness.put_link(&path.join("out"), &outside);
    ensure!(volumes.read_in_volume(&path, Path::new("env"), 9).await? == b"KEY=value");
    refused(volumes.read_in_volume(&path, Path::new("env"), 8).await, &path.join("env"))?;
    for name in ["out", "../outside", "..data", "missing"] {
        let read = volumes.read_in_volume(&path, Path::new(name), 100).await;
        let error = refused(read, &path.join(name))?;
        ensure!(error.is_not_found() == (name == "missing"), "{name}: {error:?}");
    }
    Ok(())
}
