//! Parts of volumes.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use model::ports::volumes::{Subpath, SubpathError};

use super::content::payload;
use super::{World, made, place, refused};

/// A part of the volume `volume`, mounted at the place with this number.
fn part(world: &dyn World, path: &str, number: usize) -> Subpath {
    Subpath {
        volume: world.directory().join("volume"),
        path: path.into(),
        target: place(world, "pod/volume-subpaths").join(format!("data/main/{number}")),
    }
}

pub(super) async fn missing_directory_is_made_with_the_mode_of_the_root(
    world: &dyn World,
) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "volume").await?);
    volumes.make_directory(&volume, 0o770).await?;
    let part = part(world, "a/b", 0);
    volumes.bind_subpath(&part).await?;
    for path in ["a", "a/b"] {
        let mode = world.mode(&volume.path().join(path)) & 0o7777;
        ensure!(mode == 0o770, "{path}: {mode:o}");
    }
    world.write(&part.target.path().join("file"), b"text");
    ensure!(world.files().read(&volume.path().join("a/b/file"), 10).await? == b"text");
    Ok(())
}

pub(super) async fn links_inside_the_volume_lead_to_their_target(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "volume").await?);
    made(world, "volume/real/deep").await?;
    world.write(&volume.path().join("real/file"), b"text");
    world.put_link(&volume.path().join("relative"), Path::new("real"));
    world.put_link(&volume.path().join("absolute"), &volume.path().join("real"));
    volumes.write_payload(&volume, &payload(&[("key", "value")]), None).await?;
    for (number, path) in ["relative", "absolute", "real/.", "absolute/deep/.."].iter().enumerate()
    {
        let part = part(world, path, number);
        if path.ends_with("..") {
            ensure!(volumes.bind_subpath(&part).await.is_err(), "{path}");
            continue;
        }
        volumes.bind_subpath(&part).await?;
        let read = world.files().read(&part.target.path().join("file"), 10).await?;
        ensure!(read == b"text", "{path}");
    }
    let key = part(world, "key", 9);
    volumes.bind_subpath(&key).await?;
    ensure!(world.files().read(&key.target.path(), 10).await? == b"value");
    let new = part(world, "relative/new", 10);
    volumes.bind_subpath(&new).await?;
    ensure!(world.files().list(&volume.path().join("real")).await? == ["deep", "file", "new"]);
    Ok(())
}

pub(super) async fn links_out_of_the_volume_are_refused(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "volume").await?);
    made(world, "outside").await?;
    let path = volume.path();
    world.write(&world.directory().join("outside/file"), b"text");
    world.put_link(&path.join("root"), Path::new("/"));
    world.put_link(&path.join("up"), Path::new(".."));
    world.put_link(&path.join("outside"), &world.directory().join("outside"));
    world.put_link(&path.join("file"), &world.directory().join("outside/file"));
    world.put_link(&path.join("nowhere"), &world.directory().join("outside/new"));
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
        match volumes.bind_subpath(&part(world, path, number)).await {
            Err(SubpathError::Create { .. } | SubpathError::Prepare { .. }) => {}
            Ok(()) => bail!("{path} is mounted"),
        }
    }
    ensure!(volumes.mounts(&world.directory()).await?.is_empty());
    ensure!(world.files().list(&world.directory().join("outside")).await? == ["file"]);
    Ok(())
}

pub(super) async fn subpath_that_changed_is_mounted_again(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "volume").await?);
    made(world, "volume/one").await?;
    made(world, "volume/two").await?;
    world.write(&volume.path().join("two/file"), b"two");
    world.write(&volume.path().join("three"), b"three");
    let part = part(world, "link", 0);
    for (target, content) in [("one", None), ("one", None), ("two", Some("two"))] {
        world.put_link(&volume.path().join("link"), Path::new(target));
        volumes.bind_subpath(&part).await?;
        let found = world.files().read(&part.target.path().join("file"), 10).await.ok();
        ensure!(found.as_deref() == content.map(str::as_bytes), "{target}");
        ensure!(volumes.mounts(&world.directory()).await?.len() == 1, "{target}");
        world.remove(&volume.path().join("link"));
    }
    world.put_link(&volume.path().join("link"), Path::new("three"));
    volumes.bind_subpath(&part).await?;
    ensure!(world.files().read(&part.target.path(), 10).await? == b"three");
    Ok(())
}

pub(super) async fn subpath_mounts_are_cleaned_with_their_places(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "volume").await?);
    let (subpaths, path) = (place(world, "pod/volume-subpaths"), volume.path());
    world.write(&path.join("file"), b"text");
    for (number, name) in ["a", "b", "file"].into_iter().enumerate() {
        volumes.bind_subpath(&part(world, name, number)).await?;
    }
    let mut other = part(world, "a", 0);
    other.target = subpaths.join("other/main/0");
    volumes.bind_subpath(&other).await?;
    volumes.clean_subpaths(&subpaths, "data").await?;
    volumes.clean_subpaths(&subpaths, "data").await?;
    ensure!(volumes.directories(&subpaths).await? == ["other"]);
    ensure!(world.files().list(&path).await? == ["a", "b", "file"]);
    ensure!(volumes.mounts(&world.directory()).await?.len() == 1);
    volumes.clean_subpaths(&subpaths, "other").await?;
    ensure!(volumes.directories(&place(world, "pod")).await?.is_empty());
    // What a container or a crash left there is not removed.
    let left = subpaths.path().join("data/main/0/file");
    made(world, "pod/volume-subpaths/data/main/0").await?;
    world.write(&left, b"text");
    refused(volumes.clean_subpaths(&subpaths, "data").await, &subpaths.path())?;
    ensure!(world.files().read(&left, 10).await? == b"text");
    Ok(())
}

pub(super) async fn file_in_a_volume_is_read_through_inner_links(world: &dyn World) -> Result<()> {
    let (volumes, volume) = (world.volumes(), made(world, "volume").await?);
    let (path, outside) = (volume.path(), world.directory().join("outside"));
    world.write(&outside, b"secret");
    volumes.write_payload(&volume, &payload(&[("env", "KEY=value")]), None).await?;
    world.put_link(&path.join("out"), &outside);
    ensure!(volumes.read_in_volume(&path, Path::new("env"), 9).await? == b"KEY=value");
    refused(volumes.read_in_volume(&path, Path::new("env"), 8).await, &path.join("env"))?;
    for name in ["out", "../outside", "..data", "missing"] {
        let read = volumes.read_in_volume(&path, Path::new(name), 100).await;
        let error = refused(read, &path.join(name))?;
        ensure!(error.is_not_found() == (name == "missing"), "{name}: {error:?}");
    }
    Ok(())
}
