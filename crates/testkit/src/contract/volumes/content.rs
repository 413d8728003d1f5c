//! Payload files of a volume.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use model::ports::volumes::Written;
use model::volume::{Payload, PayloadFile, Place};

use super::{Harness, made, refused};

/// Files that are readable by all.
pub(super) fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |content: &str| PayloadFile {
        content: content.as_bytes().into(),
        mode: 0o644,
        owner: None,
    };
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), file(content)));
    Payload { files: files.collect() }
}

async fn read(harness: &dyn Harness, volume: &Place, path: &str) -> Result<String> {
    let path = volume.path().join(path);
    let content =
        harness.files().read(&path, 100).await.with_context(|| path.display().to_string())?;
    Ok(String::from_utf8(content)?)
}

/// The names in a volume, with `<time>` for timestamped directories.
async fn names(harness: &dyn Harness, volume: &Place) -> Result<Vec<String>> {
    let names = harness.files().list(&volume.path()).await?;
    let plain = |name: String| {
        if name.starts_with("..") && name.contains('_') && !name.starts_with("..data") {
            "<time>".to_owned()
        } else {
            name
        }
    };
    Ok(names.into_iter().map(plain).collect())
}

pub(super) async fn payload_is_read_through_links_with_its_modes(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let mut wanted = payload(&[("a", "one"), ("tls/key.pem", "key"), ("./tls//ca/ca.pem", "ca")]);
    wanted.files.get_mut("tls/key.pem").context("the file exists")?.mode = 0o400;
    ensure!(volumes.write_payload(&volume, &wanted, None).await? == Written::New);
    for (path, content) in [("a", "one"), ("tls/key.pem", "key"), ("tls/ca/ca.pem", "ca")] {
        ensure!(read(harness, &volume, path).await? == content, "{path}");
        ensure!(read(harness, &volume, &format!("..data/{path}")).await? == content, "{path}");
    }
    for (path, mode) in [("tls/key.pem", 0o400), ("a", 0o644), ("tls", 0o755), ("..data", 0o755)] {
        let real = harness.files().list(&volume.path()).await?;
        let time = real.iter().find(|name| name.contains('.') && name.contains('_'));
        let time = volume.path().join(time.context("no timestamped directory")?);
        let path = if path == "..data" { time } else { time.join(path) };
        ensure!(
            harness.mode(&path) & 0o7777 == mode,
            "{}: {:o}",
            path.display(),
            harness.mode(&path)
        );
    }
    ensure!(names(harness, &volume).await? == ["<time>", "..data", "a", "tls"]);
    Ok(())
}

pub(super) async fn payload_replaces_the_one_before_with_its_links(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    made(harness, "data/mounted").await?;
    let first = payload(&[("gone", "1"), ("kept", "1"), ("dir/gone", "1"), ("old/a", "1")]);
    volumes.write_payload(&volume, &first, None).await?;
    let second = payload(&[("kept", "2"), ("dir/new", "2"), ("new", "2")]);
    ensure!(volumes.write_payload(&volume, &second, None).await? == Written::New);
    ensure!(
        names(harness, &volume).await? == ["<time>", "..data", "dir", "kept", "mounted", "new"]
    );
    for path in ["kept", "dir/new", "new"] {
        ensure!(read(harness, &volume, path).await? == "2", "{path}");
    }
    ensure!(read(harness, &volume, "dir/gone").await.is_err());
    ensure!(volumes.write_payload(&volume, &payload(&[]), None).await? == Written::New);
    ensure!(names(harness, &volume).await? == ["<time>", "..data", "mounted"]);
    Ok(())
}

pub(super) async fn equal_payload_is_not_written_again_but_missing_links_are_made(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let wanted = payload(&[("a", "one"), ("b/c", "two"), ("d", "three")]);
    volumes.write_payload(&volume, &wanted, None).await?;
    let before = harness.files().look(&volume.path().join("..data/a")).await?;
    harness.remove(&volume.path().join("a"));
    harness.remove(&volume.path().join("d"));
    harness.put_link(&volume.path().join("d"), Path::new("/elsewhere"));
    ensure!(volumes.write_payload(&volume, &wanted, None).await? == Written::Same);
    ensure!(harness.files().look(&volume.path().join("a")).await? == before);
    ensure!(read(harness, &volume, "d").await? == "three");
    ensure!(names(harness, &volume).await? == ["<time>", "..data", "a", "b", "d"]);
    Ok(())
}

pub(super) async fn payload_leading_out_of_the_volume_is_refused(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    volumes.write_payload(&volume, &payload(&[("a", "one")]), None).await?;
    let long = "x".repeat(256);
    for path in ["../a", "/a", "b/../../a", "..b", "", "a/b", &long] {
        let wrong = payload(&[(path, "two"), ("a", "two")]);
        refused(volumes.write_payload(&volume, &wrong, None).await, &volume.path())?;
    }
    ensure!(read(harness, &volume, "a").await? == "one");
    ensure!(names(harness, &volume).await? == ["<time>", "..data", "a"]);
    Ok(())
}

pub(super) async fn payload_over_a_foreign_file_is_refused_and_old_content_stays(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    volumes.write_payload(&volume, &payload(&[("a", "one")]), None).await?;
    harness.write(&volume.path().join("b"), b"foreign");
    let wanted = payload(&[("a", "two"), ("b", "two")]);
    refused(volumes.write_payload(&volume, &wanted, None).await, &volume.path())?;
    ensure!(read(harness, &volume, "a").await? == "one");
    ensure!(read(harness, &volume, "b").await? == "foreign");
    ensure!(names(harness, &volume).await? == ["<time>", "..data", "a", "b"]);
    Ok(())
}

pub(super) async fn planted_links_are_not_followed_by_a_payload(
    harness: &dyn Harness,
) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let outside = harness.directory().join("outside");
    made(harness, "outside/..2026_01_01_00_00_00.1").await?;
    harness.write(&outside.join("a"), b"outside");
    harness.write(&outside.join("..2026_01_01_00_00_00.1/a"), b"outside");
    harness.put_link(&volume.path().join("..data"), &outside);
    harness.put_link(&volume.path().join("..data_tmp"), &outside);
    harness.put_link(&volume.path().join("..2026_01_01_00_00_00.1"), &outside);
    harness.put_link(&volume.path().join("a"), &outside.join("a"));
    let wanted = payload(&[("a", "inside")]);
    ensure!(volumes.write_payload(&volume, &wanted, None).await? == Written::New);
    ensure!(read(harness, &volume, "a").await? == "inside");
    ensure!(names(harness, &volume).await? == ["<time>", "..data", "a"]);
    ensure!(harness.files().read(&outside.join("a"), 10).await? == b"outside");
    ensure!(harness.files().list(&outside).await? == ["..2026_01_01_00_00_00.1", "a"]);
    Ok(())
}

pub(super) async fn leftovers_of_a_crash_are_removed(harness: &dyn Harness) -> Result<()> {
    let (volumes, volume) = (harness.volumes(), made(harness, "data").await?);
    let wanted = payload(&[("a", "one")]);
    for round in 0..2 {
        let path = volume.path();
        made(harness, "data/..2020_01_02_03_04_05.678").await?;
        harness.write(&path.join("..2020_01_02_03_04_05.678/a"), b"half");
        harness.put_link(&path.join("..data_tmp"), Path::new("..2020_01_02_03_04_05.678"));
        harness.put_link(&path.join("stale"), Path::new("..data/stale"));
        let written = volumes.write_payload(&volume, &wanted, None).await?;
        ensure!(written == if round == 0 { Written::New } else { Written::Same });
        ensure!(names(harness, &volume).await? == ["<time>", "..data", "a"], "round {round}");
    }
    Ok(())
}
